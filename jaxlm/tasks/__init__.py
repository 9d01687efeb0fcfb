"""What is done with trained models: evaluation, mixtures, differences, bins of words, neighbours, sampling."""
