"""Ways to fit a model that are not stochastic gradient descent."""
