// A blast wave in a closed box: a disc of hot gas at rest expands and is reflected by the walls.
#include "solver.hpp"

#include <algorithm>
#include <cstdio>

int main() {
  const int cells = 48;
  const double end_time = 0.25;
  const int num_outputs = 5;
  const double cfl = 0.4;

  Grid grid(cells, cells, 1.0, 1.0);
  for (int j = 0; j < grid.ny; ++j) {
    for (int i = 0; i < grid.nx; ++i) {
      const double x = grid.x_center(i) - 0.35;
      const double y = grid.y_center(j) - 0.45;
      const bool inside = x * x + y * y < 0.15 * 0.15;
      grid.at(i, j) = to_conserved({inside ? 1.2 : 1.0, 0.0, 0.0, inside ? 5.0 : 0.2});
    }
  }

  double time = 0.0;
  int step = 0;
  for (int output = 1; output <= num_outputs; ++output) {
    const double next_output = end_time * output / num_outputs;
    while (time < next_output) {
      const double dt = std::min(stable_step(grid, cfl), next_output - time);
      advance(grid, dt);
      time += dt;
      step += 1;
    }
    char folder[16];
    std::snprintf(folder, sizeof(folder), "plt%05d", output);
    write_plotfile(grid, folder, step, time);
    std::printf("%s: step %d, time %g\n", folder, step, time);
  }
  return 0;
}
