"""Output layers and losses that any word-predicting model can take."""
