#include "solver.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace {

const char *const names[num_vars] = {"density", "x_velocity", "y_velocity", "pressure"};

std::vector<double> variable(const Grid &grid, int which) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(grid.nx) * grid.ny);
  for (int j = 0; j < grid.ny; ++j) {
    for (int i = 0; i < grid.nx; ++i) {
      const Primitive gas = to_primitive(grid.at(i, j));
      const double all[num_vars] = {gas.rho, gas.u, gas.v, gas.p};
      values.push_back(all[which]);
    }
  }
  return values;
}

std::string box(const Grid &grid) {
  return "((0,0) (" + std::to_string(grid.nx - 1) + "," + std::to_string(grid.ny - 1) + ") (0,0))";
}

// Smallest or largest value of each variable, as AMReX lists them per box.
void write_extremes(std::ostream &out, const Grid &grid, bool largest) {
  out << "1," << num_vars << "\n";
  for (int n = 0; n < num_vars; ++n) {
    const std::vector<double> values = variable(grid, n);
    const auto extremes = std::minmax_element(values.begin(), values.end());
    out << (largest ? *extremes.second : *extremes.first) << ",";
  }
  out << "\n";
}

} // namespace

void write_plotfile(const Grid &grid, const std::string &folder, int step, double time) {
  std::filesystem::create_directories(folder + "/Level_0");
  const double width = grid.nx * grid.dx;
  const double height = grid.ny * grid.dy;

  std::ofstream header(folder + "/Header");
  header.precision(10);
  header << "HyperCLaw-V1.1\n" << num_vars << "\n";
  for (const char *name : names)
    header << name << "\n";
  header << 2 << "\n" << time << "\n" << 0 << "\n";
  header << "0 0\n" << width << " " << height << "\n\n";
  header << box(grid) << "\n" << step << "\n" << grid.dx << " " << grid.dy << "\n0\n0\n";
  header << "0 1 " << time << "\n" << step << "\n";
  header << "0 " << width << "\n0 " << height << "\nLevel_0/Cell\n";

  std::ofstream cells_header(folder + "/Level_0/Cell_H");
  cells_header.precision(17);
  cells_header << "1\n1\n" << num_vars << "\n0\n(1 0\n" << box(grid) << "\n)\n1\n";
  cells_header << "FabOnDisk: Cell_D_00000 0\n\n";
  write_extremes(cells_header, grid, false);
  cells_header << "\n";
  write_extremes(cells_header, grid, true);

  std::ofstream cells(folder + "/Level_0/Cell_D_00000", std::ios::binary);
  cells << "FAB ((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))" << box(grid) << " " << num_vars << "\n";
  for (int n = 0; n < num_vars; ++n) {
    const std::vector<double> values = variable(grid, n);
    cells.write(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(double));
  }
}
