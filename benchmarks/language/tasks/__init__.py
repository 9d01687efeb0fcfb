"""Tasks that probabilities of sentences are judged by: rescoring of n-best lists, sentence completion."""
