// A uniform grid of cells in two dimensions with ghost cells around it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

constexpr int num_vars = 4; // mass, x momentum, y momentum, total energy, all per volume
using State = std::array<double, num_vars>;

struct Grid {
  static constexpr int ghosts = 2;

  Grid(int cells_x, int cells_y, double width, double height)
      : nx(cells_x), ny(cells_y), dx(width / cells_x), dy(height / cells_y),
        cells(static_cast<std::size_t>(cells_x + 2 * ghosts) * (cells_y + 2 * ghosts)) {}

  // Cell (i, j); 0 <= i < nx inside, the ghosts reach from -2 to nx + 1.
  State &at(int i, int j) { return cells[index(i, j)]; }
  const State &at(int i, int j) const { return cells[index(i, j)]; }

  double x_center(int i) const { return (i + 0.5) * dx; }
  double y_center(int j) const { return (j + 0.5) * dy; }

  int nx, ny;
  double dx, dy;

private:
  std::size_t index(int i, int j) const {
    return static_cast<std::size_t>(j + ghosts) * (nx + 2 * ghosts) + (i + ghosts);
  }

  std::vector<State> cells;
};
