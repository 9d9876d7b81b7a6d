"""Sums of a log that are kept in a folder: what was killed goes on, and files may be added later.

`units` says which files the sums are of, `fitted` what was fitted at first, `store` what is in the folder, and `add`
reads what is not there yet.
"""
