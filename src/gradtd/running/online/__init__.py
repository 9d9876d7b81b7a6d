"""Learning while the data arrive, in bounded memory: `Learner` for one policy, `Horde` for many."""
