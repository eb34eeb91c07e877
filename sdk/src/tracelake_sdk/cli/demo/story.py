"""The story of `tracelake demo`: where it is told, in which order, and how it ends."""

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tracelake_sdk.cli.demo import embedded
from tracelake_sdk.cli.demo.asking import ask
from tracelake_sdk.cli.demo.chapters import GOLD, Chapters
from tracelake_sdk.cli.demo.embedded import OwnSystem
from tracelake_sdk.cli.demo.on_record import tell_records
from tracelake_sdk.cli.demo.shop_files import Landing
from tracelake_sdk.cli.demo.telling import Teller
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.client import Client
from tracelake_sdk.home import default_home

LOCATION = "demo"     # that the DAG file names: the landing folder
_FIRST_DAYS = 4       # of orders, at the first telling; each later one brings a further day

DEFINITION = Path(__file__).with_name("shop.yaml")


def tell() -> None:
    """The whole demo; on a terminal a system that it started stays up until Ctrl-C, elsewhere it is stopped."""
    teller = Teller()
    teller.title("Tracelake: data moves because metadata allows it")
    with embedded.unwound_by_signals():
        client = embedded.find_running()
        if client is not None:
            with client:
                teller.chapter("A system on this machine")
                teller.say(f"One runs already, at {client.api_url}.")
                with teller.busy("sample data is made …"):
                    landing = _prepare()
                _tell_chapters(teller, client, landing)
            _close(teller, "The system runs on. What to try next:")
            return
        own = embedded.start()
        try:
            _tell_on(teller, own)
        finally:
            _stop(teller, own)


def _tell_on(teller: Teller, own: OwnSystem) -> None:
    started = time.monotonic()
    teller.chapter("A system on this machine")
    with teller.busy("Postgres, control, a worker and a query process are starting …"), ThreadPoolExecutor(1) as beside:
        preparing: Future[Landing] = beside.submit(_prepare)
        own.wait_until_ready()
        landing = preparing.result()
    with Client() as client:
        teller.say(f"A Postgres, a control process, a worker and a query process are up at {client.api_url}, after {time.monotonic() - started:.1f} seconds.")
        teller.say(f"Everything they know is in {own.files.home}.")
        teller.command(again("doctor"))
        _tell_chapters(teller, client, landing)
    if sys.stdin.isatty() and sys.stdout.isatty():
        _close(teller, "The system stays up: Ctrl-C stops it. What to try next, in another terminal:")
        own.wait()
        _stop(teller, own)
        teller.title("Tracelake has stopped.")
    else:
        _close(teller, "The system stops now; its home keeps everything. What to try next, the first in a terminal of its own:", again("up"))


def _stop(teller: Teller, own: OwnSystem) -> None:
    try:
        if own.runs:
            with teller.busy("the system stops; its home keeps everything …"):
                own.stop()
    finally:
        own.stop()  # also where it ended by itself, or somebody pressed Ctrl-C again before it was asked to


def _prepare() -> Landing:
    """The landing folder with what this telling starts from, and the DAG file beside it."""
    home = default_home().absolute()
    folder = home.with_name(f"{home.name}-demo")  # beside the home: no location may be in it
    landing = Landing(folder / "landing")
    landing.bring_customers()
    known = landing.days
    if known:
        landing.bring(known)  # a telling that was interrupted may have left it spoiled
    for day in range(known + 1, max(known + 1, _FIRST_DAYS) + 1):
        landing.bring(day)
    (folder / "dag.yaml").write_text(DEFINITION.read_text())
    return landing


def _tell_chapters(teller: Teller, client: Client, landing: Landing) -> None:
    client.admin.add_location(LOCATION, str(landing.folder))
    chapters = Chapters(teller, client, landing, landing.folder.with_name("dag.yaml"))
    chapters.deploy()
    chapters.from_files_to_gold()
    chapters.rules()
    chapters.a_bad_file()
    chapters.corrected()
    newest = chapters.where_it_comes_from()
    ask(teller, client, newest=newest)
    tell_records(teller, client, GOLD, newest=newest)


def _close(teller: Teller, words: str, *before: str) -> None:
    teller.chapter(words)
    teller.command(*before, again("status", "shop"), again("log", "shop", "--limit", "10"), again("events", "shop", "--limit", "10"))
    teller.command(again("init", "my-lake", "--dry-run"))
