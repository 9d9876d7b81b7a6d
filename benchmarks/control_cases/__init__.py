"""Worlds of `benchmarks/control.py` in JAX, its compiled loop, and its statistics."""
