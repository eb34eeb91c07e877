"""The doctor's check of the platform's own records: the newest runs and decisions have theirs, none was refused, and none waits for long."""

from contextlib import closing
from datetime import datetime, timedelta

from tracelake.control.database.clock import read_clock
from tracelake.control.database.transactions import Database
from tracelake.control.emission.checking import Checked, Fact, check_recent
from tracelake.control.emission.facts import Installation
from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records.service import Records
from tracelake.settings import Settings
from tracelake_sdk.wording import counted, plural

_LONG = timedelta(minutes=5)
_NAMED = 3  # facts, as examples


def check(settings: Settings, state_url: str) -> tuple[bool, str, str]:
    """Whether they are complete, what was found, and what to do; raises if the repository does not answer."""
    installation = Installation(settings.records.cluster, settings.records.workspace)
    on_the_way = timedelta(0) if settings.bus.url is None else _LONG
    with Database(state_url, size=2) as database, closing(RecordRepositories(Records(database), settings.records.url, settings.records.token)) as repositories:
        with database.transaction("emission_clock") as tx:
            now = read_clock(tx)
        found = check_recent(database, repositories.repository_of, installation, now=now, on_the_way=on_the_way)
    return verdict(found, now)


def verdict(found: Checked, now: datetime) -> tuple[bool, str, str]:
    """The worst finding."""
    if found.missing:
        return False, f"{counted(len(found.missing), 'fact')} of the last day without a record: {_named(found.missing)}", (
            "were records removed, or was TRACELAKE__RECORDS__URL changed? Emitted records are not emitted again"
        )
    if found.doubled:
        return False, f"{counted(len(found.doubled), 'fact')} of the last day with more than one record: {_named(found.doubled)}", "please report it: this is a bug"
    if found.refused:
        return False, f"{counted(found.refused, 'record')} of the platform itself {plural(found.refused, 'was', 'were')} refused", "the table `emission_refusal` says which and why"
    if found.behind and found.waiting_since is not None and now - found.waiting_since > _LONG:
        who = "1 run or decision waits to become a record" if found.behind == 1 else f"{found.behind} runs and decisions wait to become records"
        return False, f"{who}, the oldest for {int((now - found.waiting_since).total_seconds() // 60)} minutes", (
            "a busy system catches up; else start control, or see in its log why its repository refuses records"
        )
    waiting = f"; {found.behind} on the way" if found.behind else ""
    return True, f"{_whole(found.facts)}{waiting}", ""


def _whole(facts: int) -> str:
    match facts:
        case 0:
            return "no run or decision in the last day"
        case 1:
            return "1 fact of the last day has its record"
        case _:
            return f"the newest {facts} facts of the last day have their records"


def _named(facts: list[Fact]) -> str:
    more = f" and {len(facts) - _NAMED} more" if len(facts) > _NAMED else ""
    return ", ".join(f"{kind} {which}" for kind, which in facts[:_NAMED]) + more
