"""Plan nodes: all parts of a logical plan of Spark, read in one call to Java."""

import json
import threading
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tracelake_spark.jvm import gateway_of, java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = "PlanNodes"
_lock = threading.Lock()
_readers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # one for each JVM: compiling takes a while


@dataclass(frozen=True)
class PlanNode:
    java_class: str
    is_plan: bool                      # else an expression or another part of a plan
    line: int | None                   # from 1, if known
    column: int | None
    name: tuple[str, ...] | None       # of a function, a relation or a view
    requested: int | None              # the number of partitions, or levels of recursion, in the statement

    @property
    def kind(self) -> str:
        """Its class without the package."""
        return self.java_class.rsplit(".", 1)[-1].rstrip("$")


def nodes_of(spark: "SparkSession", plan: Any) -> list[PlanNode]:
    """Every node of a plan, including subqueries and CTEs; views are listed and not entered."""
    return [
        PlanNode(name, is_plan, line, column, parts and tuple(parts), requested)
        for name, is_plan, line, column, parts, requested in json.loads(_reader(spark).apply(plan))
    ]


def _reader(spark: "SparkSession") -> Any:
    gateway = gateway_of(spark)
    with _lock:
        reader = _readers.get(gateway)
        if reader is None:
            reader = _readers[gateway] = _compiled(spark)
    return reader


def _compiled(spark: "SparkSession") -> Any:
    compiler = java_class(spark, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook((files("tracelake_spark") / f"{_SOURCE}.java").read_text())
    made = compiler.getClassLoader().loadClass(_SOURCE)
    none = gateway_of(spark).new_array(java_class(spark, "java.lang.Class"), 0)
    return made.getDeclaredConstructor(none).newInstance(gateway_of(spark).new_array(java_class(spark, "java.lang.Object"), 0))
