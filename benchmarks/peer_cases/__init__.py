"""What `benchmarks/peers.py` is made of: logs, estimators of the literature, and other people's libraries."""
