"""Skip-gram and CBOW: word vectors by predicting words from the words around them (Mikolov et al. 2013)."""
