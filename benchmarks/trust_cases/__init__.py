"""Logs whose truth is known, for benchmarks/trust.py: none of them comes from the library's own problems."""
