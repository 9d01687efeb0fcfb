"""Text: files, vocabulary, encoding, corpora, contexts, default and synthetic text."""
