"""The steps of `tracelake demo`: where it runs, in which order, and how it ends."""

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tracelake_sdk.cli.demo import embedded
from tracelake_sdk.cli.demo.chapters import GOLD, Chapters
from tracelake_sdk.cli.demo.embedded import OwnSystem
from tracelake_sdk.cli.demo.printer import Printer
from tracelake_sdk.cli.demo.querying import show_queries
from tracelake_sdk.cli.demo.run_records import show_records
from tracelake_sdk.cli.demo.shop_files import Landing
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.client import Client
from tracelake_sdk.home import default_home

LOCATION = "demo"     # the location of the landing folder in the DAG file
_FIRST_DAYS = 4       # of orders in the first demo; each later demo adds a day

DEFINITION = Path(__file__).with_name("shop.yaml")


def run() -> None:
    """The whole demo; on a terminal a system that it started stays up until Ctrl-C, elsewhere it is stopped."""
    printer = Printer()
    printer.title("Tracelake: data moves because metadata allows it")
    with embedded.unwound_by_signals():
        client = embedded.find_running()
        if client is not None:
            with client:
                printer.chapter("A system on this machine")
                printer.say(f"A system is already running at {client.api_url}.")
                with printer.busy("creating sample data …"):
                    landing = _prepare()
                _run_chapters(printer, client, landing)
            _close(printer, "The system keeps running. What to try next:")
            return
        own = embedded.start()
        try:
            _run_on(printer, own)
        finally:
            _stop(printer, own)


def _run_on(printer: Printer, own: OwnSystem) -> None:
    started = time.monotonic()
    printer.chapter("A system on this machine")
    with printer.busy("Postgres, control, a worker and a query process are starting …"), ThreadPoolExecutor(1) as beside:
        preparing: Future[Landing] = beside.submit(_prepare)
        own.wait_until_ready()
        landing = preparing.result()
    with Client() as client:
        printer.say(f"A Postgres, a control process, a worker and a query process are up at {client.api_url}, after {time.monotonic() - started:.1f} seconds.")
        printer.say(f"Their data is in {own.files.home}.")
        printer.command(again("doctor"))
        _run_chapters(printer, client, landing)
    if sys.stdin.isatty() and sys.stdout.isatty():
        _close(printer, "The system stays up: Ctrl-C stops it. What to try next, in another terminal:")
        own.wait()
        _stop(printer, own)
        printer.title("Tracelake has stopped.")
    else:
        _close(printer, "The system stops now; its data stays in its home. What to try next, the first command in its own terminal:", again("up"))


def _stop(printer: Printer, own: OwnSystem) -> None:
    try:
        if own.runs:
            with printer.busy("stopping the system …"):
                own.stop()
    finally:
        own.stop()  # also after it exited by itself, or after a second Ctrl-C


def _prepare() -> Landing:
    """Creates the landing folder with the first files, and the DAG file next to it."""
    home = default_home().absolute()
    folder = home.with_name(f"{home.name}-demo")  # beside the home: no location may be in it
    landing = Landing(folder / "landing")
    landing.bring_customers()
    arrived = landing.days
    if arrived:
        landing.bring(arrived)  # an interrupted demo may have left it spoiled
    for day in range(arrived + 1, max(arrived + 1, _FIRST_DAYS) + 1):
        landing.bring(day)
    (folder / "dag.yaml").write_text(DEFINITION.read_text())
    return landing


def _run_chapters(printer: Printer, client: Client, landing: Landing) -> None:
    client.admin.add_location(LOCATION, str(landing.folder))
    chapters = Chapters(printer, client, landing, landing.folder.with_name("dag.yaml"))
    chapters.deploy()
    chapters.from_files_to_gold()
    chapters.rules()
    chapters.a_bad_file()
    chapters.corrected()
    newest = chapters.where_it_comes_from()
    show_queries(printer, client, newest=newest)
    show_records(printer, client, GOLD, newest=newest)


def _close(printer: Printer, words: str, *before: str) -> None:
    printer.chapter(words)
    printer.command(*before, again("status", "shop"), again("log", "shop", "--limit", "10"), again("events", "shop", "--limit", "10"))
    printer.command(again("init", "my-lake", "--dry-run"))
