"""Plots and HTML pages from computed results."""
