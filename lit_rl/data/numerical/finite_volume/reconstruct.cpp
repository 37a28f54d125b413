#include "solver.hpp"

#include <cmath>

namespace {

// The smaller of two slopes of one sign; zero at an extremum.
double minmod(double a, double b) {
  if (a * b <= 0.0)
    return 0.0;
  return std::abs(a) < std::abs(b) ? a : b;
}

double limited_half_slope(double before, double here, double after) {
  return 0.5 * minmod(here - before, after - here);
}

// The gas at one side of a cell: its value plus `side` times half the limited slope.
Primitive at_side(const Primitive &before, const Primitive &here, const Primitive &after, double side) {
  Primitive gas{};
  gas.rho = here.rho + side * limited_half_slope(before.rho, here.rho, after.rho);
  gas.u = here.u + side * limited_half_slope(before.u, here.u, after.u);
  gas.v = here.v + side * limited_half_slope(before.v, here.v, after.v);
  gas.p = here.p + side * limited_half_slope(before.p, here.p, after.p);
  return gas;
}

} // namespace

void reconstruct(const Primitive (&gas)[4], Primitive &left, Primitive &right) {
  left = at_side(gas[0], gas[1], gas[2], +1.0);
  right = at_side(gas[1], gas[2], gas[3], -1.0);
}
