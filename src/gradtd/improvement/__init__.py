"""A better policy from a log: policy iteration, evaluated on episodes that it was not learned from."""
