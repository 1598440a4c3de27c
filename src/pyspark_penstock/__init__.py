"""What Spark looks for: any module called `pyspark_…` that has a `DefaultSource`.

One of these that fails to import switches the search off for all, so it does next to nothing.
"""

from penstock.pipeline.datasource import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
