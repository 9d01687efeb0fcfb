"""What lies in a model's folder: checkpoints, journal, lock, metadata, provenance; written whole or not at all."""
