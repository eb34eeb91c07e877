"""Requests for a run: whether a job accepts one, and whether its content is valid."""

from typing import Any

from pydantic import BaseModel, ValidationError

from tracelake_sdk.dags.operators import EmitRequest, OperatorSpec, RewriteRequest
from tracelake_sdk.errors import Invalid, JobNotRunnable

_OR_REWRITE = " To rewrite its whole table from the current inputs, add --rewrite."


def check_request(job: str, operator: OperatorSpec | None, request: dict[str, Any], *, is_source: bool, replaces: bool = False) -> BaseModel:
    """The request as the operator of `job`, DAG/JOB, expects it; raises JobNotRunnable or Invalid."""
    if request == {"rewrite": True} and (operator is None or operator.request is not EmitRequest):
        return _rewrite(job, replaces=replaces)
    if operator is None or operator.request is None or not is_source:
        raise JobNotRunnable(f"Job {job} is started by the events of its inputs; run a source job of the DAG instead.{_OR_REWRITE if replaces else ''}")
    try:
        return operator.request.model_validate(request)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(part) for part in problem["loc"])
        raise Invalid(f"The request for {job} is not valid at {path or 'its top level'}: {_sentence(operator, operator.request, problem)}.") from None


def _rewrite(job: str, *, replaces: bool) -> RewriteRequest:
    if not replaces:
        raise JobNotRunnable(f"Job {job} does not replace its table (`update_strategy: replace`), so it cannot be rewritten; run it without --rewrite.")
    return RewriteRequest()


def _sentence(operator: OperatorSpec, model: type[BaseModel], problem: Any) -> str:
    match problem["type"]:
        case "extra_forbidden":
            fields = ", ".join(f"`{name}`" for name in model.model_fields)
            return f"the operator `{operator.name}` takes {f'only {fields}' if fields else 'no arguments'}; omit it"
        case "missing":
            return f"the operator `{operator.name}` needs it"
        case _:
            return str(problem["msg"])
