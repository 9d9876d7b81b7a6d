"""Sums over a log by groups of episodes: `dense` for rows with many entries, `sparse` for cells; `pieces` reads the log
once more for what every fit makes of every episode.
"""
