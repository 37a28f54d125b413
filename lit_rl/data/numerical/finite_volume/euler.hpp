// The equations of an ideal gas: conserved and primitive variables, fluxes, wave speeds.
#pragma once

#include "grid.hpp"

constexpr double gas_gamma = 1.4;

// Density, velocity and pressure of a gas.
struct Primitive {
  double rho, u, v, p;
};

Primitive to_primitive(const State &conserved);
State to_conserved(const Primitive &gas);

double sound_speed(const Primitive &gas);

// Flux of the conserved variables in the x direction.
State flux_x(const Primitive &gas);

// The same gas with the roles of x and y exchanged, so that one flux serves both directions.
Primitive swap_axes(const Primitive &gas);
State swap_axes(const State &conserved);
