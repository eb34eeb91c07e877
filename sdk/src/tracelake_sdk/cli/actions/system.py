"""`up`, `doctor` and `version`: the system on this machine."""

import importlib.metadata
import json
import os
import subprocess
import sys
from typing import Any, TypedDict, cast

import typer
from rich.text import Text

from tracelake_sdk.cli.entry import hold_home
from tracelake_sdk.cli.invocation import pasteable, server_program
from tracelake_sdk.cli.printing import clean, print_json, say
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Forbidden, NotRunning, ServerMissing, TracelakeError, Unauthenticated

_SECONDS = 120
_MARK = 8  # columns
_MARKS: dict[bool | None, tuple[str, str]] = {True: (f"{'ok':<{_MARK}}", "green"), False: (f"{'FAILED':<{_MARK}}", "bold red"), None: (f"{'-':<{_MARK}}", "dim")}


class CheckResult(TypedDict):
    """One check and its result; `ok` is None if what it checks does not exist, which never counts as a pass."""

    name: str
    ok: bool | None
    detail: str
    remedy: str


def up() -> None:
    """Replaces this process with `tracelaked up`."""
    held = hold_home()
    program = str(server_program())
    sys.stdout.flush()
    lock: list[str] = []
    if held is not None:
        os.set_inheritable(held, True)
        lock = ["--held-lock", str(held)]
    try:
        os.execv(program, [program, "up", *lock])  # noqa: S606  it replaces this process, so that signals and exit code are its own
    except OSError as error:
        raise ServerMissing(f"{program} cannot be run ({error.strerror}); reinstall the package `tracelake`.") from None


def doctor(*, as_json: bool) -> None:
    checks = [CheckResult({**check, "detail": pasteable(check["detail"]), "remedy": pasteable(check["remedy"])}) for check in (*_machine(), *_service())]
    if as_json:
        print_json(checks)
    else:
        width = max(len(check["name"]) for check in checks)
        for check in checks:
            say(Text.assemble(_MARKS[check["ok"]], f"{check['name']:<{width}}  {clean(check['detail'])}"))
            if check["remedy"]:
                say(f"{'':<{_MARK + width + 2}}→ {check['remedy']}")
    if any(check["ok"] is False for check in checks):
        raise typer.Exit(1)


def _machine() -> list[CheckResult]:
    """The checks of `tracelaked doctor`, if the server is installed."""
    try:
        program = server_program()
    except ServerMissing:
        return [CheckResult(name="server", ok=None, detail="the package `tracelake` is not installed", remedy="install it to run a system on this machine")]
    try:
        answer = subprocess.run([program, "doctor", "-o", "json"], capture_output=True, text=True, check=False, timeout=_SECONDS)
    except OSError as error:
        return [CheckResult(name="server", ok=False, detail=f"{program} cannot be run ({error.strerror})", remedy="reinstall the package `tracelake`")]
    except subprocess.TimeoutExpired:
        return [CheckResult(name="server", ok=False, detail=f"`tracelaked doctor` did not answer in {_SECONDS} seconds", remedy="run it by hand")]
    try:
        return cast("list[CheckResult]", json.loads(answer.stdout))
    except ValueError:
        errors = answer.stderr.strip().splitlines()
        return [CheckResult(name="server", ok=False, detail=errors[-1] if errors else "`tracelaked doctor` exited without output", remedy="correct what it names")]


def _service() -> list[CheckResult]:
    """Whether the service answers this client, and which user it authenticates."""
    try:
        client = Client(patience=0)
    except NotRunning as error:
        return [CheckResult(name="api", ok=None, detail=error.detail, remedy=""), _not_checked("token")]
    except TracelakeError as error:
        return [CheckResult(name="api", ok=False, detail=error.detail, remedy="correct the setting"), _not_checked("token")]
    answers = CheckResult(name="api", ok=True, detail=f"{client.api_url} answers", remedy="")
    with client:
        try:
            me = client.me()
        except (Unauthenticated, Forbidden) as error:
            return [answers, CheckResult(name="token", ok=False, detail=error.detail, remedy="set TRACELAKE_TOKEN to a valid token")]
        except NotRunning as error:
            return [CheckResult(name="api", ok=False, detail=error.detail, remedy="start a system with `tracelake up`, or correct TRACELAKE_API_URL"), _not_checked("token")]
        except TracelakeError as error:
            return [CheckResult(name="api", ok=False, detail=error.detail, remedy="try again, then look into its log"), _not_checked("token")]
    who = f"{me.name} ({me.kind}) of org {me.org} with roles {', '.join(me.roles) or 'none'}"
    return [answers, CheckResult(name="token", ok=True, detail=who, remedy="")]


def _not_checked(name: str) -> CheckResult:
    return CheckResult(name=name, ok=None, detail="no system answers", remedy="")


def version(*, as_json: bool) -> None:
    found: dict[str, Any] = {name: _version_of(name) for name in ("tracelake-sdk", "tracelake", "tracelake-spark")}
    if as_json:
        print_json(found)
    else:
        for name, number in found.items():
            say(f"{name} {number or 'is not installed'}")


def _version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
