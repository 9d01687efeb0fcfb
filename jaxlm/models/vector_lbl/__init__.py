"""vLBL and ivLBL: word vectors by noise-contrastive estimation (Mnih and Kavukcuoglu 2013)."""
