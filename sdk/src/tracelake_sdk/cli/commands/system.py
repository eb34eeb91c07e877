"""The commands of a system and a project: `up`, `demo`, `init`, `schema`, `doctor`, `version`."""

from typing import Annotated

import typer

from tracelake_sdk.cli.options import DryRun, Output, OutputFormat, Shown


def up() -> None:
    """Start a system on this machine. It runs until Ctrl-C."""
    from tracelake_sdk.cli.actions import system

    system.up()


def demo() -> None:
    """Run a guided demo on this machine. Starts a system if none is running."""
    from tracelake_sdk.cli.demo import story

    story.run()


def init(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder; created if it is missing.", show_default="this folder")] = ".",
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Create a project folder that works. Existing files are never overwritten."""
    from tracelake_sdk.cli.project import making

    making.init(folder, dry_run=dry_run, as_json=output is OutputFormat.JSON)


def schema() -> None:
    """Print the JSON Schema of DAG files, for editors. `tracelake init` puts it beside the DAG file."""
    from tracelake_sdk.cli.project import making

    print(making.dag_file_schema(), end="")


def doctor(output: Output = Shown) -> None:
    """Check this machine and the running system, and say how to fix what fails."""
    from tracelake_sdk.cli.actions import system

    system.doctor(as_json=output is OutputFormat.JSON)


def version(output: Output = Shown) -> None:
    """Show the installed releases."""
    from tracelake_sdk.cli.actions import system

    system.version(as_json=output is OutputFormat.JSON)
