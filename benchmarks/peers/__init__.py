"""The same computations in other programs, for comparison in speed."""
