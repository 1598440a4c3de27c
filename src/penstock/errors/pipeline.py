"""Spark, and the warehouse that it fills."""

from __future__ import annotations

from penstock.errors.root import PenstockError


class SparkFailed(PenstockError):
    """A Spark job ended with an error; `cause` has Spark's own words."""

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"{what} failed on Spark: {cause}")
        self.what = what
        self.cause = cause


class ForeignWarehouse(PenstockError):
    """The warehouse holds something else; name an empty place, or the one of this queue."""

    def __init__(self, warehouse: str, problem: str) -> None:
        super().__init__(
            f"{warehouse} can't take these tables: {problem}. Nothing in it was changed; "
            "name an empty place, or the warehouse that this queue has"
        )
        self.warehouse = warehouse
        self.problem = problem


class WarehouseMissing(PenstockError):
    """No tables were ever written there; `penstock pipeline run` makes them."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(
            f"there is no warehouse at {warehouse}; `penstock pipeline run URL WAREHOUSE` makes one"
        )
        self.warehouse = warehouse


class WarehouseBusy(PenstockError):
    """Others changed a table each time it was to be committed; run it again."""

    def __init__(self, table: str, tries: int) -> None:
        super().__init__(
            f"{table} could not be committed in {tries} tries: others changed it each time, or the "
            "store did not answer. Nothing was counted twice or lost; run it again"
        )
        self.table = table
