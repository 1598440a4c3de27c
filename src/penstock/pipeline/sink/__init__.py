"""`format("penstock")`, to write: the rows of a data frame as jobs of a queue."""
