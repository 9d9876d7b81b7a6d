"""Sums of a log that are kept in a folder: what was killed goes on, and files may be added later."""
