"""Turns chunks of whole episodes into rows of features. Only this package depends on the kind of log.

`base` has the protocol. `real`, `states` and `pairs` are its kinds; `time_features` adds the time since the start.
"""
