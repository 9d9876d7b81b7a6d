"""A better policy from a log: policy iteration, judged on episodes that it was not learned from."""
