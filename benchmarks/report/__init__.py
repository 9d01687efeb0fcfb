"""Pages that are made from the records: the maps of tables, the claims that hold, the page of all results."""
