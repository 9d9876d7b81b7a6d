"""Logs, streams and questions whose answers `benchmarks/golden.py` records. Nothing here but public names of gradtd."""
