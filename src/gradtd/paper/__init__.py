"""The paper's figures, tables and claims as data: what to run, what to draw, what to check."""
