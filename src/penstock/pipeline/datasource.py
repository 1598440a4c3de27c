"""What Spark calls `format("penstock")`.

Spark pickles this class to wherever it plans and reads, and imports it in every process that asks
which formats there are; so each part of it is loaded when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType


class PenstockDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        from penstock.pipeline.source.options import parse_options

        return parse_options(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.pipeline.source.batch import PenstockReader
        from penstock.pipeline.source.options import parse_options
        from penstock.pipeline.source.pushdown import PushdownReader

        options = parse_options(self.options)
        return (PushdownReader if options.pushdown else PenstockReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        from penstock.pipeline.source.options import parse_options
        from penstock.pipeline.source.stream import PenstockStreamReader

        return PenstockStreamReader(parse_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from penstock.pipeline.sink.batch import PenstockWriter
        from penstock.pipeline.sink.columns import plan
        from penstock.pipeline.sink.options import parse_write_options, require_append

        require_append(overwrite)
        return PenstockWriter(plan(schema), parse_write_options(self.options))

    def streamWriter(  # noqa: N802  # Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from penstock.pipeline.sink.columns import plan
        from penstock.pipeline.sink.options import parse_write_options, require_append
        from penstock.pipeline.sink.stream import PenstockStreamWriter

        require_append(overwrite)
        return PenstockStreamWriter(plan(schema), parse_write_options(self.options))
