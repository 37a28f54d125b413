// The parts of the solver.
#pragma once

#include "euler.hpp"
#include "grid.hpp"

#include <string>

// The gas on both sides of the face between cells 1 and 2 of four in a row: piecewise linear, limited.
void reconstruct(const Primitive (&gas)[4], Primitive &left, Primitive &right);

// Flux through a face with these two gases at its sides (x direction).
State riemann_flux(const Primitive &left, const Primitive &right);

// Ghost cells outside the walls: mirrored cells with the normal velocity reversed.
void fill_ghosts(Grid &grid);

// Longest stable time step.
double stable_step(const Grid &grid, double cfl);

// One step of the second-order Runge-Kutta method of Heun.
void advance(Grid &grid, double dt);

// A plotfile as AMReX writes them: folder with header, one level, one box.
void write_plotfile(const Grid &grid, const std::string &folder, int step, double time);
