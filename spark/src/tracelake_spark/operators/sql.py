"""The operator `sql`: one SELECT over the pinned inputs becomes the rows of output 0."""

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pydantic import ValidationError
from pyspark.errors import PySparkException

from tracelake_sdk.dags.spark_operators import SqlConfig
from tracelake_sdk.tasks.operator_files import OperatorOutcome, Order
from tracelake_spark.failures import OperatorFailed, ran_out_of_memory, spark_condition
from tracelake_spark.operators.sql_gate import select
from tracelake_spark.progress import QUIET, Progress
from tracelake_spark.reading import input_frame
from tracelake_spark.staging import stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: "SparkSession", order: Order, progress: Progress = QUIET) -> OperatorOutcome:
    """Views `input_0`, `input_1`, … and the inputs' names stay in the session."""
    try:
        return _run(spark, order, progress)
    except OperatorFailed as failed:
        return failed.outcome()
    except ValidationError:
        return OperatorFailed("config_invalid", "The config of the operator is not a valid config of `sql`.").outcome()


def _run(spark: "SparkSession", order: Order, progress: Progress) -> OperatorOutcome:
    query = SqlConfig.model_validate(order.config).query
    if len(order.outputs) != 1:
        raise OperatorFailed("sql_outputs", "The operator `sql` needs exactly one output.")
    inputs: set[str] = set()
    for pinned in order.inputs:
        frame = input_frame(spark, pinned)
        for name in {f"input_{pinned.index}", pinned.name} - {None}:
            frame.createOrReplaceTempView(str(name))
            inputs.add(str(name))
    progress.report(None, "query")
    rows = select(spark, query, inputs)
    try:
        return OperatorOutcome(outputs=[stage(rows, order.outputs[0], progress)])
    except (PySparkException, Py4JJavaError) as error:
        condition = None if ran_out_of_memory(error) else spark_condition(spark, error)
        if condition is None or not condition.is_lasting:
            raise
        raise OperatorFailed("sql_failed", f"{condition.name}{condition.place(query)}: {condition.sentence()}") from error
