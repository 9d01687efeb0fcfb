"""Pages that are made from the records: the maps of tables, what holds of the claims, the page of all results."""
