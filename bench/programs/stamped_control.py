"""Control, noting when it reaches the moments that a row asks for: by default those at which the commits of requests and completions returned to it."""

from unittest.mock import patch

from bench.programs import stamps
from tracelake.control import process
from tracelake.settings import read_settings

NOTED = ("accept:after_commit", "complete:after_commit")


def main() -> None:
    watch = stamps.watch("control", NOTED)
    # In the place of the chaos suite's watch, which the benchmark never needs: everything else is the process as it ships.
    with patch.object(process, "watch_for", return_value=watch):
        process.run(read_settings())


if __name__ == "__main__":
    main()
