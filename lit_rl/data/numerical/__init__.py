"""Numerical programs: completing code that is built and run, the EinsteinToolkit."""
