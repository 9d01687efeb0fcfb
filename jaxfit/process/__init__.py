"""This process as a whole: signals to it, the compiled programs that it keeps, its cache folder."""
