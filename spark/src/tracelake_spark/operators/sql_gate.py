"""The gate of the operator `sql`: a statement becomes a frame only if every node of its plan is known to read only the inputs.

Spark runs commands as soon as they become a frame, and evaluates some expressions while it analyzes. So the statement is parsed and checked, then analyzed
and checked, and becomes a frame last. Everything that the lists below do not contain is refused, including additions of later Spark versions.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tracelake_sdk.suggestions import nearest
from tracelake_spark.failures import OperatorFailed, java_failures, ran_out_of_memory, spark_condition
from tracelake_spark.jvm import analyzed_plan, frame_of, java_class, parsed_plan, session_state
from tracelake_spark.plan_nodes import PlanNode, nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",        # no csv.`/etc/passwd`
    "spark.sql.variable.substitute": "false",  # no ${env:HOME}
}
_USER = "tracelake"  # instead of the machine's user, in case Spark evaluates current_user() before the plan is checked


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _classes(package: str, names: str) -> frozenset[str]:
    return frozenset(f"org.apache.spark.sql.catalyst.{package}.{name}" for name in _words(names))


# Plan nodes of a SELECT, as parsed and as analyzed.
PLANS = (
    _classes("plans.logical", """
        Aggregate CTERelationDef CTERelationRef Distinct Except Expand Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit LocalRelation
        Offset OneRowRelation Pivot Project Range RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sample Sort SubqueryAlias Union UnionLoop
        UnionLoopRef Unpivot UnresolvedHint UnresolvedWith View Window WithCTE WithWindowDefinition
    """)
    | _classes("analysis", """
        ResolvedInlineTable UnresolvedHaving UnresolvedInlineTable UnresolvedQualify UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
        UnresolvedTableValuedFunction
    """)
    | _classes("expressions", "PipeOperator")
)  # fmt: skip
# Expressions come from functions, which have their own lists, and from syntax. Of Spark's own expressions these are refused.
EXPRESSION_PACKAGES = ("org.apache.spark.sql.catalyst.expressions.", "org.apache.spark.sql.catalyst.analysis.")
REFUSED_EXPRESSIONS = _words("""
    ApplyFunctionExpression CallFunction CallMethodViaReflection CurrentCatalog CurrentDatabase CurrentPath CurrentUser ExpressionWithUnresolvedIdentifier
    InputFileBlockLength InputFileBlockStart InputFileName NamedParameter PosParameter PythonUDAF PythonUDF PythonUDTF SQLFunctionExpression SQLScalarFunction
    ScalaAggregator ScalaUDAF ScalaUDF SparkVersion TryReflect UnresolvedPolymorphicPythonUDTF UserDefinedGenerator V2Aggregator VariableReference
""")
# Functions by the group that Spark documents them under. Functions for Avro and Protobuf read schemas from paths in the statement.
FUNCTION_GROUPS = frozenset(
    f"{group}_funcs"
    for group in _words("""
        agg array bitwise collection conditional conversion csv datetime generator hash json lambda map math predicate sketch st string struct url variant
        vector window
    """)
)
# Of the group `misc`; not those that show the machine, call Java, or read a path. None of `xml`: a document may name files and addresses that Java opens.
FUNCTIONS = _words("""
    aes_decrypt aes_encrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count monotonically_increasing_id raise_error spark_partition_id
    try_aes_decrypt typeof uuid
""")
TABLE_FUNCTIONS = _words("""
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack variant_explode variant_explode_outer
""")

# Limits for numbers in a statement that make a plan large. Spark plans a task for each partition, and a job for each level, before anything limits them.
MOST_PARTITIONS, MOST_LEVELS = 10_000, 1_000
_BOUNDS = dict.fromkeys(_words("Range RebalancePartitions Repartition RepartitionByExpression"), ("partitions", MOST_PARTITIONS)) | dict.fromkeys(
    _words("CTERelationDef UnionLoop"), ("levels of recursion", MOST_LEVELS)
)


def select(spark: "SparkSession", statement: str, inputs: Collection[str]) -> "DataFrame":
    """The rows of one SELECT over the temporary views of these names. Raises OperatorFailed `sql_refused` or `sql_invalid`; then nothing was read or written."""
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    java_class(spark, "org.apache.spark.sql.catalyst.CurrentUserContext").CURRENT_USER().set(_USER)
    gate = _Gate(spark, inputs)
    try:
        parsed = parsed_plan(spark, statement)
        gate.check_parsed(nodes_of(spark, parsed))
        analyzed = analyzed_plan(spark, parsed)
        gate.check_analyzed(nodes_of(spark, analyzed))
        return frame_of(spark, analyzed)
    except (PySparkException, Py4JJavaError) as error:
        raise gate.invalid(error) from error


_OF_TYPES = {"StructField": "a schema whose fields have metadata or default values", "PythonUserDefinedType": "a user-defined type"}


class _Gate:
    """The checks of one statement."""

    def __init__(self, spark: "SparkSession", inputs: Collection[str]) -> None:
        self._spark = spark
        self._inputs = sorted(inputs)

    def check_parsed(self, nodes: list[PlanNode]) -> None:
        self._check_classes(nodes)
        for node in nodes:
            match node.kind, node.name:
                case "UnresolvedRelation", tuple(name) if len(name) != 1:
                    raise self._refused(nodes, node, f"`{'.'.join(name)}` is not an input")
                case "UnresolvedTableValuedFunction", tuple(name) if _builtin(name) not in TABLE_FUNCTIONS:
                    raise self._refused(nodes, node, f"the table function `{'.'.join(name)}` is not allowed")
                case ("UnresolvedFunction" | "UnresolvedGenerator"), tuple(name) if not self._is_allowed(name):
                    raise self._refused(nodes, node, f"the function `{'.'.join(name)}` is not allowed")
                case _:
                    pass

    def check_analyzed(self, nodes: list[PlanNode]) -> None:
        self._check_classes(nodes)
        known = {name.casefold() for name in self._inputs}
        for node in nodes:
            if node.kind == "View" and (node.name is None or len(node.name) != 1 or node.name[0].casefold() not in known):
                raise self._refused(nodes, node, f"`{'.'.join(node.name or ())}` is not an input")
            what, most = _BOUNDS.get(node.kind, ("", 0))
            if node.requested is not None and not 0 < node.requested <= most:
                raise self._refused(nodes, node, f"{node.requested} {what} are outside 1 to {most}")

    def _check_classes(self, nodes: list[PlanNode]) -> None:
        for node in nodes:
            if node.is_plan:
                allowed = node.java_class.rstrip("$") in PLANS
            else:
                allowed = node.java_class.startswith(EXPRESSION_PACKAGES) and node.kind not in REFUSED_EXPRESSIONS
            if not allowed:
                raise self._refused(nodes, node, f"{_OF_TYPES.get(node.kind, f'`{node.kind}`')} is not allowed")

    def _is_allowed(self, name: tuple[str, ...]) -> bool:
        """Also functions that Spark does not know: its own error is better, and nothing runs."""
        function = _builtin(name)
        if function is None:
            return False
        group = self._group(function)
        return group is None or group in FUNCTION_GROUPS or function in FUNCTIONS

    def _group(self, function: str) -> str | None:
        some, identifier = java_class(self._spark, "scala.Some"), java_class(self._spark, "org.apache.spark.sql.catalyst.FunctionIdentifier")
        found = session_state(self._spark).functionRegistry().lookupFunction(identifier(function, some("builtin"), some("system")))
        return str(found.get().getGroup()) if found.isDefined() else None

    def _refused(self, nodes: list[PlanNode], node: PlanNode, what: str) -> OperatorFailed:
        line, column = (node.line, node.column) if node.line is not None else _first_place(nodes)
        return OperatorFailed(
            "sql_refused", f"Line {line}, column {column or 1}: {what}. Only one SELECT over {self._readable()} is allowed, using Spark's built-in functions."
        )

    def invalid(self, error: PySparkException | Py4JJavaError) -> Exception:
        """Spark's complete error about the statement; an error of another kind unchanged."""
        if ran_out_of_memory(error):
            return error
        if any(java.getClass().getName() == "java.lang.StackOverflowError" for java in java_failures(error)):
            return OperatorFailed("sql_invalid", "The statement is nested too deeply; split it with WITH, or into two jobs.")
        found = spark_condition(self._spark, error)
        if found is None:
            return error
        return OperatorFailed("sql_invalid", f"{found.name}{found.place()}: {found.whole_sentence()}{self._nearest(found.name, found.parameters)}")

    def _nearest(self, condition: str, parameters: dict[str, Any]) -> str:
        """Spark suggests columns, but not tables."""
        if condition != "TABLE_OR_VIEW_NOT_FOUND":
            return ""
        near = nearest(parameters.get("relationName", "").strip("`"), self._inputs)
        return f" A query reads {self._readable()}." + (f" Did you mean `{near}`?" if near else "")

    def _readable(self) -> str:
        return ", ".join(f"`{name}`" for name in self._inputs) or "no input (the job has none)"


def _builtin(name: tuple[str, ...]) -> str | None:
    """The name of a built-in function of Spark; None for one of another catalog."""
    *qualifier, function = (part.lower() for part in name)
    return function if qualifier in ([], ["builtin"], ["system", "builtin"]) else None


def _first_place(nodes: Iterable[PlanNode]) -> tuple[int, int]:
    """Commands have no position, but their children do."""
    return min(((node.line, node.column or 1) for node in nodes if node.line is not None), default=(1, 1))
