"""Orders and outcomes: what an operator program gets to know about its task, and how its report is read without trusting it."""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tracelake.storage.contract import Storage
from tracelake.storage.paths import UnsafePath, plain
from tracelake.storage.private_places import PrivatePlaces
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.datasets.measurements import MAX_FILES
from tracelake_sdk.tasks import InputOfTask, PinnedInput, StagedOutput, TaskPayload
from tracelake_sdk.tasks.operator_files import OperatorOutcome, Order, OrderInput, OrderOutput

_LONGEST_FILE = 64_000_000

_Model = TypeVar("_Model", bound=BaseModel)


def staging_path(staged: StagedOutput) -> str:
    """The attempt's folder of an output, below the storage's root."""
    return staged.staging if staged.staging.startswith(f"{staged.location}/") else f"{staged.location}/{staged.staging}"


def below_table(staged: StagedOutput, file: str) -> str:
    """The path relative to the table of a file that is relative to the attempt's folder."""
    return f"{staging_path(staged)}/{file}".removeprefix(f"{staged.location}/")


def check_locations(locations: Mapping[str, str], private: PrivatePlaces, storage: Storage) -> None:
    """Checks that this worker can read each of them, and that none overlaps private folders of this machine; control checked its own machine, which may be another one."""
    for name, url in locations.items():
        if url.startswith("s3:") and storage.local_path("any"):
            message = f"The location `{name}` is on S3, which needs the settings of an S3 lake, but this lake is a folder; set `storage`, or use a folder."
            raise OperatorFailed("location_unreachable", message, retry=False)
        if touched := private.touched_by(url):
            message = f"The location `{name}` is refused by this worker: it overlaps {touched}; ask an admin to give it a separate folder."
            raise OperatorFailed("location_refused", message, retry=False)


def make_order(payload: TaskPayload, storage: Storage, folder: Path, credentials: str | None = None) -> Order:
    """The attempt's order; `folder` belongs to the attempt and exists. The order contains no token and no address; `credentials` is the path of a file."""
    return Order(
        task_id=payload.task_id,
        attempt=payload.attempt or 1,
        job=payload.job.name,
        operator=payload.job.operator,
        config=payload.job.config,
        locations=payload.locations,
        update_strategy=payload.job.update_strategy,
        unique_key=payload.job.unique_key,
        trigger_kind=payload.trigger.kind,
        event_kind=payload.trigger.event_kind,
        trigger_payload=payload.trigger.payload,
        inputs=[_input(given, given.pinned, storage) for given in payload.inputs if given.pinned],
        outputs=[
            OrderOutput(
                index=output.index, staging=storage.uri(staging_path(output.staged)), everything=output.staged.everything, scopes=output.staged.scopes,
                partition_by=output.staged.partition_by, table_schema=output.staged.table_schema,
            )
            for output in payload.outputs
            if output.staged
        ],
        state=payload.state.value if payload.state else None,
        posted=payload.posted,
        batches=str(folder / "batches"),
        scratch=str(folder / "scratch"),
        outcome=str(folder / "outcome.json"),
        credentials=credentials,
    )  # fmt: skip


def _input(given: InputOfTask, pinned: PinnedInput, storage: Storage) -> OrderInput:
    return OrderInput(
        index=given.index, name=given.name, version=pinned.version, table_schema=pinned.table_schema,
        files=[storage.uri(f"{pinned.location}/{file.path}") for file in pinned.files], scopes=pinned.scopes, partition_by=pinned.partition_by,
    )  # fmt: skip


def write_order(order: Order, folder: Path) -> Path:
    """Makes the folders that the order names and writes it beside them."""
    for made in (order.batches, order.scratch):
        Path(made).mkdir(mode=0o700)
    path = folder / "order.json"
    path.write_text(order.model_dump_json())
    return path


def read_reported(path: Path, model: type[_Model], *, what: str) -> _Model | None:
    """The file that a program wrote at this path; None if it did not. Raises OperatorFailed `{what}_invalid`, which quotes nothing of it."""
    content = _bytes_of(path, what)
    if content is None:
        return None
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in model.model_fields) or "its top"
        raise _invalid(what, f"is not valid at {place} ({first['type']})") from None


def _bytes_of(path: Path, what: str) -> bytes | None:
    try:
        # Do not follow a link to a file that the program may not read, and do not block on a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        raise _invalid(what, "is not a regular file") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise _invalid(what, "is not a regular file")
    with os.fdopen(handle, "rb") as file:
        content = file.read(_LONGEST_FILE + 1)
    if len(content) > _LONGEST_FILE:
        raise _invalid(what, f"is larger than {_LONGEST_FILE} bytes")
    return content


def check_files(files: list[str], what: str) -> None:
    """Checks that these are files below the attempt's own folder."""
    if len(files) > MAX_FILES:
        raise _invalid(what, f"names more than {MAX_FILES} files; write larger ones")
    if len(set(files)) != len(files):
        raise _invalid(what, "names a file twice")
    for file in files:
        try:
            plain(file)
        except UnsafePath as unsafe:
            raise _invalid(what, f"names a file that is not allowed: {unsafe}") from None


def check_outcome(outcome: OperatorOutcome, payload: TaskPayload, posted: Iterable[tuple[int, str]]) -> None:
    """Checks that the outputs belong to the task, each reported once, with files that were not posted before; raises OperatorFailed `outcome_invalid`."""
    known = {output.index for output in payload.outputs if output.staged}
    reported = [output.index for output in outcome.outputs]
    if len(set(reported)) != len(reported) or not known.issuperset(reported):
        raise _invalid("outcome", "names an output twice, or one that the order does not have")
    gone = set(posted)
    for output in outcome.outputs:
        check_files(output.files, "outcome")
        if any((output.index, file) in gone for file in output.files):
            raise _invalid("outcome", "names a file of a batch that was posted")


def _invalid(what: str, why: str) -> OperatorFailed:
    return OperatorFailed(f"{what}_invalid", f"The operator's {what} {why}.", retry=False)
