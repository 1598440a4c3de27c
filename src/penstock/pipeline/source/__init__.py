"""`format("penstock")`, to read: the log and the jobs of a queue as data frames."""
