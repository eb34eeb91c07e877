"""Requests for a run: whether a job takes one, and what it may say."""

from typing import Any

from pydantic import BaseModel, ValidationError

from tracelake_sdk.errors import Invalid, JobNotRunnable
from tracelake_sdk.operators import OperatorSpec


def check_request(job: str, operator: OperatorSpec | None, request: dict[str, Any], *, is_source: bool) -> BaseModel:
    """The request in the form that the operator of `job`, DAG/JOB, takes; raises what is wrong with it."""
    if operator is None or operator.request is None or not is_source:
        raise JobNotRunnable(f"Job {job} is started by the events of its inputs; run a source job of the DAG instead.")
    try:
        return operator.request.model_validate(request)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise Invalid(f"The request for {job} is wrong at {place or 'its top'}: {_sentence(operator, operator.request, problem)}.") from None


def _sentence(operator: OperatorSpec, model: type[BaseModel], problem: Any) -> str:
    match problem["type"]:
        case "extra_forbidden":
            known = ", ".join(f"`{name}`" for name in model.model_fields)
            return f"the operator `{operator.name}` takes {f'only {known}' if known else 'no words with a run'}; leave it out"
        case "missing":
            return f"the operator `{operator.name}` needs it"
        case _:
            return str(problem["msg"])
