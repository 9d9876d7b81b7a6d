"""Runs rules: `session` drives every run, `runs` has `learn`, `run` and `sweep`, `online` learns step by step."""
