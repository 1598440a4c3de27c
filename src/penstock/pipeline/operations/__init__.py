"""What operators do to whole queues with Spark: replay by a predicate, export, import."""
