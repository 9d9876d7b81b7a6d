"""Sweeps over problems, algorithms, hyper-parameters and seeds, stored in a folder from which they can be resumed."""
