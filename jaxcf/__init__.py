"""Collaborative filtering (Mnih 2010, chapter 5): the room for bias models, PMF and RBMs over ratings."""
