"""Examples in docstrings are tests; those of an extra only where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("jax") and find_spec("optax") else ["gradtd/deep/*"]
