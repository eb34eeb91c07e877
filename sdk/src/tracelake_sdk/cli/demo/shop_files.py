"""The sample data: customers and orders of a shop as CSV files in a landing folder. The same seed and day always make the same file."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

_FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_SECONDS_A_DAY = 86_400
_COUNTRIES = ("at", "de", "dk", "es", "fr", "it", "nl", "se")
_WEIGHTS = (4, 20, 5, 11, 16, 13, 9, 8)
_FIRST_WORDS = ("Amber", "Birch", "Copper", "Drift", "Ember", "Fern", "Granite", "Harbour", "Ivory", "Juniper")
_SECOND_WORDS = ("Bakery", "Books", "Cycles", "Gardens", "Lamps", "Looms", "Maps", "Paper", "Tea", "Tools")
_STATUSES, _STATUS_WEIGHTS = ("paid", "canceled"), (96, 4)


@dataclass(frozen=True)
class Shop:
    """The size of the shop; files are generated on demand."""

    customers: int = 2_000
    orders_a_day: int = 50_000
    spoiled: int = 317  # orders of a spoiled file whose amount has the wrong sign
    seed: int = 20260101

    def customer_lines(self) -> Iterator[str]:
        chance = random.Random(f"{self.seed}/customers")  # noqa: S311  a sample, no secret
        countries = chance.choices(_COUNTRIES, _WEIGHTS, k=self.customers)
        yield "customer_id,name,country"
        for number, country in enumerate(countries, start=1):
            yield f"{number},{chance.choice(_FIRST_WORDS)} {chance.choice(_SECOND_WORDS)},{country}"

    def order_lines(self, day: int, *, spoiled: bool = False) -> Iterator[str]:
        """The orders of one day, the first day being 1; numbers and times grow."""
        many = self.orders_a_day
        chance = random.Random(f"{self.seed}/orders/{day}")  # noqa: S311
        midnight, before = _FIRST_DAY + timedelta(days=day - 1), (day - 1) * many
        seconds = sorted(chance.choices(range(_SECONDS_A_DAY), k=many))
        customers = chance.choices(range(1, self.customers + 1), k=many)
        statuses = chance.choices(_STATUSES, _STATUS_WEIGHTS, k=many)
        cents = [int(chance.lognormvariate(8.0, 0.7)) + 100 for _ in range(many)]
        for index in chance.sample(range(many), self.spoiled) if spoiled else ():
            cents[index] = -cents[index]
        yield "order_id,customer_id,ordered_at,status,amount"
        for index in range(many):
            at = f"{midnight + timedelta(seconds=seconds[index]):%Y-%m-%d %H:%M:%S}"
            yield f"{before + index + 1},{customers[index]},{at},{statuses[index]},{cents[index] / 100:.2f}"


@dataclass(frozen=True)
class Landing:
    """The folder in which files arrive; a file of orders is named by its day."""

    folder: Path
    shop: Shop = Shop()

    @property
    def orders(self) -> Path:
        return self.folder / "orders"

    @property
    def days(self) -> int:
        """How many days have arrived."""
        return len(list(self.orders.glob("*.csv")))

    def file(self, day: int) -> Path:
        return self.orders / f"{_FIRST_DAY + timedelta(days=day - 1):%Y-%m-%d}.csv"

    def bring_customers(self) -> Path:
        return _written(self.folder / "customers" / "customers.csv", self.shop.customer_lines())

    def bring(self, day: int, *, spoiled: bool = False) -> Path:
        return _written(self.file(day), self.shop.order_lines(day, spoiled=spoiled))

    def files_with(self, order_ids: Iterable[str]) -> list[Path]:
        """The files that contain these orders."""
        beginnings = tuple(f"{id}," for id in order_ids)
        return [file for file in sorted(self.orders.glob("*.csv")) if any(line.startswith(beginnings) for line in file.read_text().splitlines())]


def _written(file: Path, lines: Iterable[str]) -> Path:
    """Writes atomically. A file that already has this text keeps its modification time, so that it does not count as changed."""
    text = "".join(f"{line}\n" for line in lines)
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(text)
        draft.replace(file)
    return file
