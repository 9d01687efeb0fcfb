"""Ratings: files, readers, splits, synthetic ratings, users' rating vectors."""
