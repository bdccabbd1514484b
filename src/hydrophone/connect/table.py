"""Tables of Spark's catalogue as a sink. As a source, Spark reads them: ``hp.from_spark(spark.table(...), ...)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydrophone.connect.sink import Answer, Sink
from hydrophone.errors import ParameterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Table(Sink):
    """A table in Spark's catalogue; a stream adds the columns ``query`` and ``batch``, which partition it."""

    noun = "table"
    adds = ("batch", "query")
    by_spark = True

    name: str
    format: str | None = None

    @property
    def place(self) -> str:
        """The name."""
        return self.name

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """Needs a session."""
        raise ParameterError("save: tables are Spark's", hint="give a session: save(to, spark)")

    def save_frame(self, frame: DataFrame, *, overwrite: bool) -> None:
        """A new table, or one in place of what is there."""
        writer = frame.write.mode("overwrite" if overwrite else "errorifexists")
        (writer.format(self.format) if self.format else writer).saveAsTable(self.name)

    def exists(self, spark: SparkSession) -> bool:
        """As the catalogue says."""
        return bool(spark.catalog.tableExists(self.name))

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make the table, or see that the one that is there fits."""
        wanted = [*schema.names, "query", "batch"]
        if not self.exists(spark):
            empty = spark.createDataFrame([], schema)
            writer = empty.selectExpr("*", "'' as query", "0L as batch").write.partitionBy("query", "batch")
            (writer.format(self.format) if self.format else writer).saveAsTable(self.name)
            return
        found = spark.table(self.name).columns
        if found != wanted:
            raise ParameterError(
                f"write.table: {self.name} has the columns {', '.join(found)}; a stream writes {', '.join(wanted)}",
                hint="choose another name: the stream makes the table",
            )

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """A partition for every micro-batch of a query: the session of the stream overwrites dynamically, its own partition alone."""
        marked = rows.selectExpr("*", f"'{query}' as query", f"{batch}L as batch")
        marked.write.mode("overwrite").insertInto(self.name, overwrite=True)
