"""Opening the files that a user names, and the limits on what is read of them."""
