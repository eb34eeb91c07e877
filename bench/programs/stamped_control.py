"""Control, noting when the commits of accepted requests and of completions returned to it."""

from unittest.mock import patch

from bench.programs.stamps import Stamps
from tracelake.control import process
from tracelake.settings import read_settings

NOTED = ("accept:after_commit", "complete:after_commit")


def main() -> None:
    stamps = Stamps("control")

    def watch(moment: str) -> None:
        if moment in NOTED:
            stamps.note(moment)

    # In the place of the chaos suite's watch, which the benchmark never needs: everything else is the process as it ships.
    with patch.object(process, "watch_for", return_value=watch):
        process.run(read_settings())


if __name__ == "__main__":
    main()
