"""`tracelaked`: the programs of a Tracelake system, and the only place that builds them."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial

from tracelake_sdk.errors import SettingInvalid, TracelakeError
from tracelake_sdk.home import HomeFiles, default_home

_FAILED = 1
_USAGE = 2


def up(arguments: argparse.Namespace) -> int:
    """Start everything on this machine and keep it running; Ctrl-C stops it."""
    # Before anything that takes time: another command then finds the home locked and waits.
    held = HomeFiles(default_home()).hold() if arguments.held_lock is None else arguments.held_lock
    from tracelake.embedded.supervisor import Supervisor
    from tracelake.settings import read_settings, settings_file

    settings, file = read_settings(), settings_file()

    def ready(api_url: str) -> None:
        _say(f"Tracelake is up at {api_url} (home {settings.home}{f', settings {file.resolve()}' if file else ''}). Ctrl-C stops it.")

    Supervisor(settings, say=_say, on_ready=ready, held_lock=held).run()
    _say("Tracelake has stopped.")
    return 0


def control(arguments: argparse.Namespace) -> int:
    """Run one control process: the HTTP interface and the housekeeping."""
    from tracelake.control.process import run
    from tracelake.settings import read_settings

    run(read_settings())
    return 0


def worker(arguments: argparse.Namespace) -> int:
    """Run one worker: it claims tasks from control and runs their operators."""
    from tracelake.settings import read_settings
    from tracelake.worker.process import run

    run(read_settings())
    return 0


def query(arguments: argparse.Namespace) -> int:
    """Run one query process: it answers queries over pinned versions for control."""
    from tracelake.query.process import run
    from tracelake.settings import read_settings

    run(read_settings())
    return 0


def records(arguments: argparse.Namespace) -> int:
    """Run the records service by itself: metadata records and kinds, with its own database and tokens."""
    from tracelake.control.records_process import run
    from tracelake.settings import read_settings

    run(read_settings())
    return 0


def migrate(arguments: argparse.Namespace) -> int:
    """Migrate a Postgres to the schema of this release, as the role that owns the schema."""
    from tracelake.embedded.supervisor import run_migrations
    from tracelake.settings import read_settings

    database = read_settings().database
    if database.owner_url is None:
        raise SettingInvalid("TRACELAKE__DATABASE__OWNER_URL: set it to a URL with the role that owns the schema; `tracelaked up` migrates the embedded Postgres")
    service_url = database.url.get_secret_value() if database.url else None
    applied = run_migrations(database.owner_url.get_secret_value(), service_url, records_alone=arguments.program == "records")
    for name in applied:
        _say(f"applied {name}")
    _say(f"{len(applied)} migrations applied; the schema is up to date")
    return 0


def doctor(arguments: argparse.Namespace) -> int:
    """Check this machine and the system on it, and say how to fix problems."""
    from tracelake.control.bus import health as bus
    from tracelake.control.emission import health as records
    from tracelake.control.worker_loops import health as worker_loops
    from tracelake.embedded.doctor import examine
    from tracelake.settings import read_settings

    settings = read_settings()
    checks = examine(settings, {"records": partial(records.check, settings), "bus": partial(bus.check, settings), "worker loops": worker_loops.check})
    if arguments.output == "json":
        _say(json.dumps([check.as_json() for check in checks], indent=2))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            mark = {True: "ok", False: "FAILED", None: "-"}[check.ok]
            _say(f"{mark:<7}{check.name:<{width}}  {check.detail}" + (f"\n{'':<{width + 9}}→ {check.remedy}" if check.remedy else ""))
    return _FAILED if any(check.ok is False for check in checks) else 0


def forget(arguments: argparse.Namespace) -> int:
    """Remove a subscriber that no longer exists from the bus on Postgres; messages are no longer kept for it."""
    from tracelake.control.bus import health
    from tracelake.embedded.doctor import state_url
    from tracelake.settings import read_settings

    health.forget(state_url(read_settings()), arguments.topic, arguments.subscriber)
    _say(f"Removed subscriber {arguments.subscriber} of topic {arguments.topic}.")
    return 0


_COMMANDS: tuple[Callable[[argparse.Namespace], int], ...] = (up, control, worker, query, records, migrate, doctor, forget)


def main(words: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(words)
    try:
        code = arguments.command(arguments)
    except TracelakeError as error:
        print(f"error [{error.code}]: {error.detail}", file=sys.stderr)
        sys.exit(_USAGE if isinstance(error, SettingInvalid) else _FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tracelaked", description="The programs of a Tracelake system.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in _COMMANDS:
        words = commands.add_parser(command.__name__, help=command.__doc__, description=command.__doc__)
        words.set_defaults(command=command)
        if command is up:
            words.add_argument("--held-lock", type=int, metavar="DESCRIPTOR", help="an open file that holds the lock of the home; `tracelake up` passes it")
        if command is migrate:
            words.add_argument("--for", dest="program", choices=("all", "records"), default="all", help="`records`: only what `tracelaked records` needs")
        if command is forget:
            words.add_argument("topic", help="as `tracelaked doctor` prints it")
            words.add_argument("subscriber", help="as `tracelaked doctor` prints it")
        if command is doctor:
            words.add_argument("-o", "--output", choices=("table", "json"), default="table", help="how to print the checks")
    return parser


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
