"""The sample data of the demo: the same on every machine, and in days that fit together."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tracelake_sdk.cli.demo.shop_files import Landing, Shop

SMALL = Shop(customers=20, orders_a_day=100, spoiled=7)


def text(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def test_the_same_seed_makes_the_same_files_on_every_machine() -> None:
    made = text(SMALL.customer_lines()) + text(SMALL.order_lines(1)) + text(SMALL.order_lines(2, spoiled=True))
    assert hashlib.sha256(made.encode()).hexdigest() == "eeb08dc0cb0d9095a96456bfd8b4f7761589e183d50bf7587052ca6c09bc1e66"
    assert text(Shop(customers=20, orders_a_day=100, seed=1).order_lines(1)) != text(SMALL.order_lines(1))


def test_days_follow_each_other_without_gap() -> None:
    ids = [int(line.partition(",")[0]) for day in (1, 2, 3) for line in list(SMALL.order_lines(day))[1:]]
    assert ids == list(range(1, 301))
    assert {line.split(",")[2][:10] for line in list(SMALL.order_lines(2))[1:]} == {"2026-01-02"}
    assert {int(line.split(",")[1]) for line in list(SMALL.order_lines(1))[1:]} <= set(range(1, 21))


def test_a_spoiled_file_differs_in_the_signs_of_some_amounts_and_nothing_else() -> None:
    good, spoiled = list(SMALL.order_lines(1)), list(SMALL.order_lines(1, spoiled=True))
    different = [(one, other) for one, other in zip(good, spoiled, strict=True) if one != other]
    assert len(different) == SMALL.spoiled
    assert all(other == ",-".join(one.rsplit(",", 1)) for one, other in different)


def test_a_file_arrives_whole_and_once(tmp_path: Path) -> None:
    landing = Landing(tmp_path, SMALL)
    assert landing.days == 0
    file = landing.bring(1)
    landing.bring(2, spoiled=True)
    assert (file.name, landing.days) == ("2026-01-01.csv", 2)
    before = file.stat().st_mtime_ns
    assert landing.bring(1).stat().st_mtime_ns == before  # the same text is the same file
    landing.bring(2)
    assert landing.file(2).read_text().splitlines() == list(SMALL.order_lines(2))
    assert sorted(path.name for path in landing.orders.iterdir()) == ["2026-01-01.csv", "2026-01-02.csv"]


def test_an_order_leads_to_its_file(tmp_path: Path) -> None:
    landing = Landing(tmp_path, SMALL)
    landing.bring(1)
    landing.bring(2)
    assert landing.files_with(["150", "151"]) == [landing.file(2)]
    assert landing.files_with(["100", "101"]) == [landing.file(1), landing.file(2)]
    assert landing.files_with(["1000"]) == []
