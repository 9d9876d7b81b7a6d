"""Running rules: `session` is the one way, `runs` has `learn`, `run` and `sweep`, `online` learns step by step."""
