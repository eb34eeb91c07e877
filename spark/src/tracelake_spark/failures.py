"""Failures of operators as error classes and sentences that contain no value of any row."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from tracelake_sdk.tasks import OperatorError
from tracelake_sdk.tasks.operator_files import OperatorOutcome
from tracelake_spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Parameters of Spark's messages that may be shown: names and types. Any other may be a value of a row or a part of the query.
_NAMES = frozenset({
    "columnName", "dataType", "existingColumn", "fieldName", "fieldNames", "fields", "functionName", "inputType", "name", "objectName", "proposal",
    "referenceNames", "relationName", "requiredType", "routineName", "sourceType", "targetType", "tableName", "actualNum", "expectedNum", "paramIndex",
})
_NAME = re.compile(r"[\w`\"., <>()\[\]-]{1,300}")
_URI = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*:/[^\s'\"`,;)\]]+")
_MEMORY = "java.lang.OutOfMemoryError"
# SQLSTATE classes of errors in the statement or the data: unsupported, cardinality, data, constraint, syntax and names, limits, raised by the statement.
_LASTING = frozenset({"0A", "21", "22", "23", "42", "54", "P0"})
_PASSING = frozenset({"PATH_NOT_FOUND"})  # a file that existed when the work began


class OperatorFailed(Exception):
    """A failure that an operator reports itself."""

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
            return OperatorError(error_class="out_of_memory", message="Spark ran out of memory; increase `spark.memory`, or process less data per task.")
        if condition := spark_condition(spark, error):
            return OperatorError(error_class=condition.name, message=condition.sentence(), retry=not condition.is_lasting)
    except (Py4JError, OSError):  # the JVM no longer answers
        return spark_died()
    if isinstance(error, Py4JNetworkError):
        return spark_died()
    names = [java.getClass().getSimpleName() for java in java_failures(error)] or [type(error).__name__]
    return OperatorError(error_class=names[-1], message=f"The operator failed with {' by '.join(dict.fromkeys(names))}.")


def spark_died() -> OperatorError:
    return OperatorError(error_class="spark_died", message="Spark's Java process ended while the task ran; the next attempt gets a new one.")


@dataclass(frozen=True)
class SparkPlace:
    """The part of a statement that Spark reports as the cause."""

    line: int
    column: int          # from 1
    fragment: str = ""
    statement: str = ""


@dataclass(frozen=True)
class SparkCondition:
    """Spark's own description of a failure."""

    name: str
    sql_state: str
    template: str
    parameters: dict[str, str]
    blamed: SparkPlace | None

    @property
    def is_lasting(self) -> bool:
        """Whether the same work over the same data fails again."""
        return self.sql_state[:2] in _LASTING and self.name not in _PASSING

    def place(self, statement: str | None = None) -> str:
        """The position in a statement; with the expression that failed, if it is part of this statement."""
        if self.blamed is None or statement not in (None, self.blamed.statement):
            return ""
        where = f", line {self.blamed.line}, column {self.blamed.column}"
        return where if statement is None else f"{where}, in `{' '.join(self.blamed.fragment.split())[:300]}`"

    def sentence(self) -> str:
        """The message with names and types; the rest, which may be a value of a row, becomes `…`."""
        return self._filled(_name_or_gap)

    def whole_sentence(self) -> str:
        """Spark's complete message, for failures before any row was read. Paths are omitted."""
        return self._filled(lambda _parameter, value: _URI.sub("…", value))

    def _filled(self, shown: Callable[[str, str], str]) -> str:
        return " ".join(re.sub(r"<(\w+)>", lambda found: shown(found[1], self.parameters.get(found[1], "")), self.template).split())[:1500]


def spark_condition(spark: "SparkSession", error: BaseException) -> SparkCondition | None:
    """The innermost condition that Spark names."""
    throwable = java_class(spark, "java.lang.Class").forName("org.apache.spark.SparkThrowable")
    named = [java for java in java_failures(error) if throwable.isInstance(java) and java.getCondition() is not None]
    if not named:
        return None
    java = named[-1]
    template: str = java_class(spark, "org.apache.spark.SparkThrowableHelper").errorReader().getMessageTemplate(java.getCondition())
    return SparkCondition(java.getCondition(), java.getSqlState() or "", template, dict(java.getMessageParameters()), _blamed(spark, java))


def _blamed(spark: "SparkSession", java: Any) -> SparkPlace | None:
    for context in java.getQueryContext():
        if context.contextType().toString() == "SQL" and context.line().isDefined() and context.startPosition().isDefined() and context.sqlText().isDefined():
            return SparkPlace(context.line().get(), context.startPosition().get() + 1, context.fragment(), context.sqlText().get())
    # The parser only reports where it stopped.
    if java_class(spark, "java.lang.Class").forName("org.apache.spark.sql.AnalysisException").isInstance(java) and java.line().isDefined() and java.startPosition().isDefined():
        return SparkPlace(java.line().get(), java.startPosition().get() + 1)
    return None


def _name_or_gap(parameter: str, value: str) -> str:
    return value if parameter in _NAMES and _NAME.fullmatch(value) else "…"
