"""Learns a better policy from a log by policy iteration, and evaluates it on episodes not used for learning."""
