"""Tables and figures of Lauly et al. (2017): models of documents."""
