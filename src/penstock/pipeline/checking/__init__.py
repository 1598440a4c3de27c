"""The invariants over a whole log, as a Spark job that names the jobs that break them."""
