"""Open quotes: finds a quoted value of a CSV file that is never closed, so that Spark reads the following lines as part of the value.

A line either leaves a value open or not, depending on whether it started inside one; so no sequential parser of all lines is needed, only the
lines with quotes, in order.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from tracelake_spark.reading import exact_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_QUOTED = '"[^"]*+(?:""[^"]*+)*+'  # a quoted value without its closing quote; possessive, because a value may be long
_OPEN, _SHUT = 1, 0                # after a line: whether a value continues


def open_quotes(spark: "SparkSession", uris: Sequence[str], delimiter: str) -> dict[str, int]:
    """By file, as Spark names it: the line of the first quote that is never closed, or that closes in the middle of a value."""
    lines = exact_files(spark, list(uris)).text(list(uris)).select(
        F.col("value"), F.col("_metadata.file_path").alias("file"), F.col("_metadata.file_block_start").alias("block"), F.monotonically_increasing_id().alias("id")
    )  # fmt: skip
    found = _unclosed(lines.where(F.col("value").contains('"')), delimiter).collect()
    if not found:
        return {}
    blocks = lines.groupBy("file", "block").agg(F.min("id").alias("first"), F.count("*").alias("lines")).collect()
    numbers: dict[str, int] = {}
    for row in found:
        before = sum(each["lines"] for each in blocks if each["file"] == row["file"] and each["block"] < row["at"]["block"])
        first = next(each["first"] for each in blocks if each["file"] == row["file"] and each["block"] == row["at"]["block"])
        numbers[unquote(row["file"])] = int(before + row["at"]["id"] - first + 1)
    return numbers


def _unclosed(quoted: "DataFrame", delimiter: str) -> "DataFrame":
    """`file`, and `at`: the position of the line in which the value starts."""
    classed = quoted.withColumns({"from_shut": _after(F.col("value"), delimiter), "from_open": _after(F.concat(F.lit('"'), F.col("value")), delimiter), "breaks": _breaks(delimiter)}).drop("value")
    order = Window.partitionBy("file").orderBy("block", "id")
    # A line that leaves the same state whatever it started with resets the state; between such lines each line keeps or flips it.
    is_start = F.col("from_shut") == F.col("from_open")
    turns = F.when(~is_start & (F.col("from_shut") == _OPEN), 1).otherwise(0)
    started = classed.withColumns({"run": F.sum(F.when(is_start, 1).otherwise(0)).over(order), "turns": turns})
    in_run = Window.partitionBy("file", "run").orderBy("block", "id")
    begun = F.coalesce(F.first(F.when(is_start, F.col("from_shut")), ignorenulls=False).over(in_run), F.lit(_SHUT))
    after = started.withColumn("after", (begun + F.sum("turns").over(in_run)) % 2)
    before = after.withColumn("before", F.coalesce(F.lag("after").over(order), F.lit(_SHUT)))
    place = F.struct("block", "id")
    opened = F.last(F.when((F.col("before") == _SHUT) & (F.col("after") == _OPEN), place), ignorenulls=True).over(order)
    # A value that a line continues was opened before that line.
    earlier = F.last(F.when((F.col("before") == _SHUT) & (F.col("after") == _OPEN), place), ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
    is_last = F.lead("id").over(order).isNull()
    broken = (F.col("before") == _OPEN) & F.col("breaks")
    at = F.when(broken, earlier).when(is_last & (F.col("after") == _OPEN), opened)
    return before.withColumn("at", at).where(F.col("at").isNotNull()).groupBy("file").agg(F.min("at").alias("at"))


def _after(line: "Column", delimiter: str) -> "Column":
    """The state after a line that starts outside of a quoted value; a quote in the middle of a value opens nothing."""
    mark = re.escape(delimiter)
    rest = F.regexp_replace(line, f'(?<=^|{mark}){_QUOTED}"(?=$|{mark})', "")
    return F.when(rest.rlike(f'(?:^|{mark}){_QUOTED}$'), _OPEN).otherwise(_SHUT)


def _breaks(delimiter: str) -> "Column":
    """Whether a line that starts inside a quoted value has a quote that neither ends the value nor is doubled."""
    return F.concat(F.lit('"'), F.col("value")).rlike(f'^{_QUOTED}"(?!$|{re.escape(delimiter)})')
