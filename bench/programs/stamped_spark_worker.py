"""The worker, noting when it reaches the moments of an attempt that a row asks for."""

from unittest.mock import patch

from bench.programs import stamps
from tracelake.settings import read_settings
from tracelake.worker import process


def main() -> None:
    # In the place of the chaos suite's watch; everything else is the process as it ships.
    with patch.object(process, "watch_for", return_value=stamps.watch("worker")):
        process.run(read_settings())


if __name__ == "__main__":
    main()
