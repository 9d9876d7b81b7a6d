"""Worlds in which the value of every policy is known: tables, solved exactly, and CartPole, by roll-outs."""
