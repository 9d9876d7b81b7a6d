"""Values of actions: features of pairs, next rows that are the target's expectation, ratio one."""
