"""The foundation of all other packages: steps and streams, the definition of an algorithm, checks, files, progress."""
