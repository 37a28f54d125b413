#include "solver.hpp"

#include <algorithm>

// HLL: one average state between the fastest waves to the left and to the right.
State riemann_flux(const Primitive &left, const Primitive &right) {
  const double c_left = sound_speed(left);
  const double c_right = sound_speed(right);
  const double s_left = std::min(left.u - c_left, right.u - c_right);
  const double s_right = std::max(left.u + c_left, right.u + c_right);

  const State f_left = flux_x(left);
  const State f_right = flux_x(right);
  if (s_left >= 0.0)
    return f_left;
  if (s_right <= 0.0)
    return f_right;

  const State u_left = to_conserved(left);
  const State u_right = to_conserved(right);
  State flux{};
  for (int n = 0; n < num_vars; ++n) {
    flux[n] = (s_right * f_left[n] - s_left * f_right[n] + s_left * s_right * (u_right[n] - u_left[n])) /
              (s_right - s_left);
  }
  return flux;
}
