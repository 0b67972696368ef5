"""Kernels and the wrapper as text."""
