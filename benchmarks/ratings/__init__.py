"""Tables 5.1 to 5.3 and Figures 5.1 to 5.8 of the thesis."""
