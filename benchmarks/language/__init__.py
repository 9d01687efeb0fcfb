"""Tables 3.2 and 4.1 to 4.9 of the thesis."""
