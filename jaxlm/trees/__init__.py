"""Binary trees over words, apart from the models that use them (Mnih 2010, §4.3-4.4)."""
