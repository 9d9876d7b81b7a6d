"""Turns chunks of whole episodes into rows of features.

`base` defines the protocol. `real`, `states` and `pairs` are its kinds. `choices` computes the target's choices for
rows of pairs, and `choices_in_parts` does so for each chunk of a log in parts. `time_features` adds the time since the
start. `log_features` computes the features of the reported fit. `evaluation/plan.py` and `fit_design` in
`evaluation/folder.py` select the kind. CONTRIBUTING.md, "A kind of design row", lists every place that depends on it.
"""
