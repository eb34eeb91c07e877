"""Failures of operators: what became of a task, said without a row of data and without a word of SQL."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from tracelake_sdk.operating import OperatorOutcome
from tracelake_sdk.tasks import OperatorError
from tracelake_spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark's messages may quote: names and types. Everything else may be a value of a row or a piece of the query.
_NAMES = frozenset({
    "columnName", "dataType", "existingColumn", "fieldName", "fieldNames", "fields", "functionName", "inputType", "name", "objectName", "proposal",
    "referenceNames", "relationName", "requiredType", "routineName", "sourceType", "targetType", "tableName", "actualNum", "expectedNum", "paramIndex",
})
_NAME = re.compile(r"[\w`\"., <>()\[\]-]{1,300}")
_MEMORY = "java.lang.OutOfMemoryError"


class OperatorFailed(Exception):
    """A failure that an operator can name itself."""

    def __init__(self, error_class: str, message: str, *, retry: bool = False, custom: dict[str, Any] | None = None) -> None:
        self.error = OperatorError(error_class=error_class, message=message, retry=retry)
        self.custom: dict[str, Any] = custom or {}
        super().__init__(message)

    def outcome(self) -> OperatorOutcome:
        return OperatorOutcome(error=self.error, custom=self.custom)


def java_failures(error: BaseException) -> Iterator[Any]:
    """The Java exceptions behind a Python one, outermost first."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    seen = 0
    while java is not None and seen < 50:
        yield java
        java, seen = java.getCause(), seen + 1


def ran_out_of_memory(error: BaseException) -> bool:
    return any(java.getClass().getName() == _MEMORY for java in java_failures(error))


def operator_error(spark: "SparkSession", error: BaseException) -> OperatorError:
    """Any failure as a class and a sentence."""
    if isinstance(error, OperatorFailed):
        return error.error
    try:
        if ran_out_of_memory(error):
            return OperatorError(error_class="out_of_memory", message="Spark ran out of memory; give the worker's Spark host more, or the task less to do at once.")
        if said := spark_sentence(spark, error):
            condition, sentence = said
            return OperatorError(error_class=condition, message=sentence)
    except (Py4JError, OSError):  # Java cannot be asked any more
        return spark_died()
    if isinstance(error, Py4JNetworkError):
        return spark_died()
    names = [java.getClass().getSimpleName() for java in java_failures(error)] or [type(error).__name__]
    return OperatorError(error_class=names[-1], message=f"The operator failed with {' by '.join(dict.fromkeys(names))}.")


def spark_died() -> OperatorError:
    return OperatorError(error_class="spark_died", message="Spark's Java process ended while the task ran; the next attempt gets a new one.")


def spark_sentence(spark: "SparkSession", error: BaseException) -> tuple[str, str] | None:
    """The innermost condition that Spark names, and its sentence with names and types filled in, the rest as `…`."""
    throwable = java_class(spark, "java.lang.Class").forName("org.apache.spark.SparkThrowable")
    told: tuple[str, dict[str, str]] | None = None
    for java in java_failures(error):
        if throwable.isInstance(java) and java.getCondition() is not None:
            told = java.getCondition(), dict(java.getMessageParameters())
    if told is None:
        return None
    condition, parameters = told
    template: str = java_class(spark, "org.apache.spark.SparkThrowableHelper").errorReader().getMessageTemplate(condition)
    return condition, " ".join(re.sub(r"<(\w+)>", lambda found: _shown(found[1], parameters), template).split())[:2000]


def _shown(parameter: str, parameters: dict[str, str]) -> str:
    value = parameters.get(parameter, "")
    return value if parameter in _NAMES and _NAME.fullmatch(value) else "…"
