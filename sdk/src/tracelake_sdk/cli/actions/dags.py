"""`deploy`, `status`, `pause` and `resume`: DAGs and their jobs."""

import sys
from pathlib import Path

import typer

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.picture import print_dag
from tracelake_sdk.cli.printing import TableColumn, print_json, print_table, say
from tracelake_sdk.cli.targets import Target
from tracelake_sdk.client import Client
from tracelake_sdk.dags.status import DagStatus, Deployed, JobStatus
from tracelake_sdk.errors import NotFound
from tracelake_sdk.suggestions import did_you_mean
from tracelake_sdk.wording import counted


def deploy(file: str, *, dry_run: bool, as_json: bool) -> None:
    definition = _read(file)
    with Client() as client:
        deployed = client.dags.deploy(definition, dry_run=dry_run)
        if as_json:
            print_json({"dry_run": dry_run, **deployed.model_dump()})
        elif dry_run:
            say(_would_deploy(deployed))
        elif deployed.created:
            say(f"DAG {deployed.dag} is active as version {deployed.version} with {counted(len(deployed.jobs), 'job')}.")
            _print_published(deployed)
            print_dag(client.dags.get(deployed.dag))
        else:
            say(f"DAG {deployed.dag} is already active with this definition (version {deployed.version}); nothing was changed.")


def _would_deploy(deployed: Deployed) -> str:
    if not deployed.created:
        return f"DAG {deployed.dag} is already active with this definition (version {deployed.version}); a deploy would change nothing."
    jobs = ", ".join(deployed.jobs)
    return f"A deploy would activate DAG {deployed.dag} as version {deployed.version} with {counted(len(deployed.jobs), 'job')}: {jobs}. Nothing was changed."


def _print_published(deployed: Deployed) -> None:
    if deployed.published:
        print_table([TableColumn("dataset"), TableColumn("uuid")], sorted(deployed.published.items()))
        say()


def _read(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not text in UTF-8", param_hint="FILE") from None


def status(dag: str | None, *, as_json: bool) -> None:
    with Client() as client:
        found = client.dags.list() if dag is None else [client.dags.get(dag)]
    if as_json:
        print_json(found if dag is None else found[0])
        return
    if not found:
        say("No DAGs found, or you have no permission on any. Run the demo to see a small one:")
        say(f"  {again('demo')}")
    for index, one in enumerate(found):
        if index:
            say()
        print_dag(one)


def pause(target: Target, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        if dry_run:
            _print_dry_run(*_would_pause(client.dags.get(target.dag), target), as_json=as_json)
            return
        after = client.dags.pause(target.dag, target.job)
    _print_after(after, f"{target} is paused: queued tasks wait, running tasks continue.", as_json=as_json)


def resume(target: Target, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        if dry_run:
            _print_dry_run(*_would_resume(client.dags.get(target.dag), target), as_json=as_json)
            return
        after = client.dags.resume(target.dag, target.job)
    _print_after(after, _resumed(after, target), as_json=as_json)


def job_of(dag: DagStatus, name: str) -> JobStatus:
    """The job of this name; raises NotFound."""
    for job in dag.jobs:
        if job.name == name:
            return job
    advice = did_you_mean(f"{dag.name}/{name}", [f"{dag.name}/{job.name}" for job in dag.jobs], f"`tracelake status {dag.name}` lists its jobs.")
    raise NotFound(f"Job {dag.name}/{name} was not found in this org; {advice}")


def _resumed(after: DagStatus, target: Target) -> str:
    if target.job is None:
        waiting = [job.name for job in after.jobs if job.paused]
        return f"{target} is resumed." + (f" Still paused: {', '.join(f'{target}/{name}' for name in waiting)}." if waiting else "")
    return f"{target} is resumed, but its DAG is paused, so its tasks still wait; resume {after.name} too." if after.paused else f"{target} is resumed."


def _would_pause(dag: DagStatus, target: Target) -> tuple[bool, str]:
    jobs = dag.jobs if target.job is None else [job_of(dag, target.job)]
    if dag.paused if target.job is None else jobs[0].paused:
        return False, f"{target} is already paused; a pause would change nothing."
    held = sum(job.tasks.queued + sum(job.tasks.waiting.values()) for job in jobs)
    return True, f"A pause of {target} would hold {counted(held, 'task')} that {_wait(held)} to be claimed and every further one. Nothing was changed."


def _would_resume(dag: DagStatus, target: Target) -> tuple[bool, str]:
    jobs = dag.jobs if target.job is None else [job_of(dag, target.job)]
    if not (dag.paused if target.job is None else jobs[0].paused):
        return False, f"{target} is not paused; a resume would change nothing."
    free = sum(job.tasks.waiting.get("paused", 0) for job in jobs if target.job is not None or not job.paused)
    return True, f"A resume of {target} would let {counted(free, 'task')} that {_wait(free)} for it continue. Nothing was changed."


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _print_dry_run(changes: bool, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": True, "changes": changes, "says": sentence})
    else:
        say(sentence)


def _print_after(after: DagStatus, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(after)
    else:
        say(sentence)
        print_dag(after)
