"""Sweeps over problems, algorithms, hyper-parameters and seeds, kept in a folder and resumed there."""
