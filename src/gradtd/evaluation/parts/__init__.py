"""Logs that do not fit into memory: one reading, sums by groups of episodes, and the same checks from those."""
