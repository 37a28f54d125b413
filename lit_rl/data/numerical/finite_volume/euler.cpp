#include "euler.hpp"

#include <cmath>

Primitive to_primitive(const State &conserved) {
  Primitive gas{};
  gas.rho = conserved[0];
  gas.u = conserved[1] / gas.rho;
  gas.v = conserved[2] / gas.rho;
  const double kinetic = 0.5 * gas.rho * (gas.u * gas.u + gas.v * gas.v);
  gas.p = (gas_gamma - 1.0) * (conserved[3] - kinetic);
  return gas;
}

State to_conserved(const Primitive &gas) {
  const double kinetic = 0.5 * gas.rho * (gas.u * gas.u + gas.v * gas.v);
  return {gas.rho, gas.rho * gas.u, gas.rho * gas.v, gas.p / (gas_gamma - 1.0) + kinetic};
}

double sound_speed(const Primitive &gas) {
  return std::sqrt(gas_gamma * gas.p / gas.rho);
}

State flux_x(const Primitive &gas) {
  const State conserved = to_conserved(gas);
  State flux{};
  flux[0] = conserved[1];
  flux[1] = conserved[1] * gas.u + gas.p;
  flux[2] = conserved[2] * gas.u;
  flux[3] = (conserved[3] + gas.p) * gas.u;
  return flux;
}

Primitive swap_axes(const Primitive &gas) { return {gas.rho, gas.v, gas.u, gas.p}; }

State swap_axes(const State &conserved) {
  return {conserved[0], conserved[2], conserved[1], conserved[3]};
}
