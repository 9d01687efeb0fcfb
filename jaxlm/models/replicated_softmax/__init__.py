"""The Replicated Softmax: a restricted Boltzmann machine over the words of a document."""
