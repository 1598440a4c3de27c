"""Ways from a queue to the tables: by its commits, or by looks where it has none."""
