"""Design rows: how a chunk of whole episodes becomes rows of features. Nothing else depends on the kind of a log.

`base` has the protocol. `real`, `states` and `pairs` are its kinds; `time_features` adds the time since the start.
"""
