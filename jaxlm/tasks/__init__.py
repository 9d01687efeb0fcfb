"""What is done with trained models: evaluation, mixtures, neighbours, sampling."""
