"""Confinement of a process before untrusted code runs in it: namespaces, files, system calls, resources."""
