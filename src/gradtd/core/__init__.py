"""What everything else is made of: steps and streams, what an algorithm is, checks, files, progress."""
