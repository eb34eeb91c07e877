"""The operator `sql`: one SELECT over the pinned inputs becomes the rows of output 0."""

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pydantic import ValidationError
from pyspark.errors import PySparkException

from tracelake_sdk.operating import OperatorOutcome, Order
from tracelake_sdk.spark_operators import SqlConfig
from tracelake_spark.failures import OperatorFailed, ran_out_of_memory, spark_sentence
from tracelake_spark.jvm import execution_of, java_class, session_state
from tracelake_spark.reading import input_frame
from tracelake_spark.staging import stage
from tracelake_spark.telling import QUIET, Tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JAVA_CALLS = ("reflect", "java_method", "try_reflect")  # functions that call any method of any class


def run(spark: "SparkSession", order: Order, tell: Tell = QUIET) -> OperatorOutcome:
    """Views `input_0`, `input_1`, … and the inputs' names stay behind in the session that is given."""
    try:
        return _run(spark, order, tell)
    except OperatorFailed as failed:
        return failed.outcome()
    except ValidationError:
        return OperatorFailed("config_invalid", "The config of the operator is not that of `sql`.").outcome()
    except (PySparkException, Py4JJavaError) as error:
        if ran_out_of_memory(error):
            raise
        said = spark_sentence(spark, error)
        if said is None:
            raise
        condition, sentence = said
        return OperatorFailed("sql_failed", f"{condition}: {sentence}", retry=not isinstance(error, _refusals())).outcome()


def _run(spark: "SparkSession", order: Order, tell: Tell) -> OperatorOutcome:
    query = SqlConfig.model_validate(order.config).query
    if len(order.outputs) != 1:
        raise OperatorFailed("sql_outputs", "A query has one output.")
    for pinned in order.inputs:
        frame = input_frame(spark, pinned)
        for name in dict.fromkeys([f"input_{pinned.index}", pinned.name]):
            if name is not None:
                frame.createOrReplaceTempView(name)
    tell.progress(None, "query")
    return OperatorOutcome(outputs=[stage(_select(spark, query), order.outputs[0], tell)])


def _refusals() -> tuple[type[Exception], ...]:
    """Errors that the same query over the same data will give again."""
    from pyspark.errors import AnalysisException, ArithmeticException, NumberFormatException  # noqa: PLC0415

    return AnalysisException, ArithmeticException, NumberFormatException


def _select(spark: "SparkSession", query: str) -> "DataFrame":
    """The query, if it only reads what it was given: no statement, no file, no table, no program and no Java method."""
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    words = query.lower()
    if any(word in words for word in (*_JAVA_CALLS, "identifier")):  # IDENTIFIER makes a name of any text
        _drop_java_calls(spark)
    if _is_statement(spark, session_state(spark).sqlParser().parsePlan(query)):
        raise OperatorFailed("sql_not_a_select", "The query is a statement that changes something; write one SELECT.")
    frame = spark.sql(query)
    if "using" in words and "ScriptTransformation" in execution_of(frame).analyzed().toString():
        raise OperatorFailed("sql_not_a_select", "The query runs a program with TRANSFORM; write one SELECT.")
    return frame


def _drop_java_calls(spark: "SparkSession") -> None:
    some, identifier = java_class(spark, "scala.Some"), java_class(spark, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    for name in _JAVA_CALLS:
        session_state(spark).functionRegistry().dropFunction(identifier(name, some("builtin"), some("system")))


def _is_statement(spark: "SparkSession", plan: Any) -> bool:
    kind = plan.getClass().getSimpleName()
    if kind == "UnresolvedWith":  # a statement may stand behind its named queries
        return _is_statement(spark, plan.child())
    loaded = java_class(spark, "java.lang.Class").forName
    logical = "org.apache.spark.sql.catalyst.plans.logical"
    statements = (loaded(f"{logical}.{name}") for name in ("Command", "ParsedStatement", "CompoundBody"))
    return kind == "UnresolvedExecuteImmediate" or any(statement.isInstance(plan) for statement in statements)
