"""DocNADE: documents as words each of which is predicted from those before it (Lauly et al. 2017, §2)."""
