"""A model's folder: checkpoints, manifests, journal, lock, metadata, provenance; written completely or not at all."""
