"""Conditional probabilistic matrix factorization (Mnih 2010, §5.3.2)."""
