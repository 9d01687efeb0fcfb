"""Documents as bags of words: their files, their vocabulary, their layout on the device."""
