#include "solver.hpp"

#include <algorithm>
#include <cmath>

void fill_ghosts(Grid &grid) {
  for (int j = 0; j < grid.ny; ++j) {
    for (int g = 0; g < Grid::ghosts; ++g) {
      grid.at(-1 - g, j) = grid.at(g, j);
      grid.at(-1 - g, j)[1] *= -1.0;
      grid.at(grid.nx + g, j) = grid.at(grid.nx - 1 - g, j);
      grid.at(grid.nx + g, j)[1] *= -1.0;
    }
  }
  for (int i = 0; i < grid.nx; ++i) {
    for (int g = 0; g < Grid::ghosts; ++g) {
      grid.at(i, -1 - g) = grid.at(i, g);
      grid.at(i, -1 - g)[2] *= -1.0;
      grid.at(i, grid.ny + g) = grid.at(i, grid.ny - 1 - g);
      grid.at(i, grid.ny + g)[2] *= -1.0;
    }
  }
}

double stable_step(const Grid &grid, double cfl) {
  double fastest = 0.0;
  for (int j = 0; j < grid.ny; ++j) {
    for (int i = 0; i < grid.nx; ++i) {
      const Primitive gas = to_primitive(grid.at(i, j));
      const double c = sound_speed(gas);
      fastest = std::max(fastest, (std::abs(gas.u) + c) / grid.dx + (std::abs(gas.v) + c) / grid.dy);
    }
  }
  return cfl / fastest;
}

namespace {

State face_flux_x(const Grid &grid, int i, int j) {
  const Primitive gas[4] = {to_primitive(grid.at(i - 2, j)), to_primitive(grid.at(i - 1, j)),
                            to_primitive(grid.at(i, j)), to_primitive(grid.at(i + 1, j))};
  Primitive left, right;
  reconstruct(gas, left, right);
  return riemann_flux(left, right);
}

State face_flux_y(const Grid &grid, int i, int j) {
  const Primitive gas[4] = {
      swap_axes(to_primitive(grid.at(i, j - 2))), swap_axes(to_primitive(grid.at(i, j - 1))),
      swap_axes(to_primitive(grid.at(i, j))), swap_axes(to_primitive(grid.at(i, j + 1)))};
  Primitive left, right;
  reconstruct(gas, left, right);
  return swap_axes(riemann_flux(left, right));
}

// target = a * old + b * (grid + dt * change of grid)
void blend_step(const Grid &old, Grid &grid, double dt, double a, double b) {
  fill_ghosts(grid);
  Grid next = grid;
  for (int j = 0; j < grid.ny; ++j) {
    for (int i = 0; i < grid.nx; ++i) {
      const State west = face_flux_x(grid, i, j);
      const State east = face_flux_x(grid, i + 1, j);
      const State south = face_flux_y(grid, i, j);
      const State north = face_flux_y(grid, i, j + 1);
      for (int n = 0; n < num_vars; ++n) {
        const double change = -(east[n] - west[n]) / grid.dx - (north[n] - south[n]) / grid.dy;
        next.at(i, j)[n] = a * old.at(i, j)[n] + b * (grid.at(i, j)[n] + dt * change);
      }
    }
  }
  grid = next;
}

} // namespace

void advance(Grid &grid, double dt) {
  const Grid old = grid;
  blend_step(old, grid, dt, 0.0, 1.0);
  blend_step(old, grid, dt, 0.5, 0.5);
}
