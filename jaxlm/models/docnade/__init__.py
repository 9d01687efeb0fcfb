"""DocNADE: each word of a document is predicted from the words before it (Lauly et al. 2017, §2)."""
