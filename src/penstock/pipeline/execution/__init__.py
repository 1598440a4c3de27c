"""Handlers on Spark's executors: workers inside tasks, and handlers over the rows of a frame."""
