"""The restricted Boltzmann machine for ratings (Mnih 2010, §5.2.1)."""
