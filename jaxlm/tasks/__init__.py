"""What is done with trained models: evaluation, mixtures, analyses, sampling, and tasks that they are judged by."""
