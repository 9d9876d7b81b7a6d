"""The estimates of an evaluation: least squares, fitted rules, importance sampling, double RL, and their intervals."""
