"""What a run leaves: a table for people, JSON lines for programs."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.figures import Figure, Spread, spell
from bench.running import Outcome, Runs, medians, parts


def lines(outcome: Outcome, *, size: str, at: str, commit: str | None) -> Iterator[dict[str, Any]]:
    """For each figure one line about ours, with `against` null, and one for each that it is compared with."""
    for figure in outcome.row.figures:
        ours = outcome.ours.spread(figure)
        for runs in outcome.with_figure(figure):
            own = runs is outcome.ours
            ratio = None if own else outcome.ratios(figure, runs)
            yield {
                "row": outcome.row.name,
                "figure": figure.name,
                "unit": figure.unit,
                "ours": ours.median,
                "against": None if own else runs.contender.name,
                "ratio": ratio.median if ratio else None,
                "ratio_spread": [ratio.least, ratio.most] if ratio else None,
                **medians(runs),
                "parts_ms": parts(runs) or None,
                "version": runs.contender.version,
                "runs": [figure.of(run) for run in runs.measured],
                "goal": figure.goal,
                "met": outcome.met(figure),
                "goal_here": (here := outcome.goal_here(figure)),
                "met_here": None if here is None else figure.met(ours.median, here),
                "above_limit": above.median if (above := outcome.above_limit(figure)) else None,
                "size": size,
                "at": at,
                "commit": commit,
            }


def write(path: Path, found: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for line in found:
            file.write(json.dumps(line) + "\n")


def table(outcome: Outcome) -> str:
    """One block a figure: ours with its goal, then everyone with the ratio."""
    text = f"{outcome.row.name}: {outcome.row.what}\n  n = {outcome.n:,}, {len(outcome.ours.measured)} runs, medians (least to most)\n"
    for figure in outcome.row.figures:
        rows = [("", f"{figure.name}, {figure.unit}", "ours against it", "")]
        rows.append((_name(outcome.ours), _spread(outcome.ours.spread(figure)), "", _goal(outcome, figure)))
        rows += [(_name(other), _spread(other.spread(figure)), _ratio(outcome.ratios(figure, other)), "") for other in outcome.with_figure(figure)[1:]]
        text += "\n" + _aligned(rows)
        if above := outcome.above_limit(figure):
            text += f"  above the limit: {_spread(above)} {figure.unit}\n"
    if where := parts(outcome.ours):
        text += "\n  where the time of one goes, ms: " + ", ".join(f"{name} {spell(value)}" for name, value in where.items()) + "\n"
    return text


def summary(outcomes: Iterable[Outcome]) -> str:
    """Every goal in one line."""
    rows = [
        (outcome.row.name, figure.name, f"{spell(outcome.ours.spread(figure).median)} {figure.unit}", _goal(outcome, figure))
        for outcome in outcomes
        for figure in outcome.row.figures
    ]
    return _aligned([("row", "figure", "ours", ""), *rows])


def _name(runs: Runs) -> str:
    return f"{runs.contender.name} ({runs.contender.version})"


def _spread(spread: Spread) -> str:
    return f"{spell(spread.median)} ({spell(spread.least)} to {spell(spread.most)})"


def _ratio(ratio: Spread) -> str:
    return f"{spell(ratio.median)}× ({spell(ratio.least)} to {spell(ratio.most)})"


def _goal(outcome: Outcome, figure: Figure) -> str:
    here = outcome.goal_here(figure)
    return f"goal {_verdict(outcome, figure, figure.goal)}" + (f"; by the limit here {_verdict(outcome, figure, here)}" if here is not None else "")


def _verdict(outcome: Outcome, figure: Figure, goal: float) -> str:
    ours = outcome.ours.spread(figure).median
    return f"{figure.goal_text(goal)}: " + ("met" if figure.met(ours, goal) else f"NOT MET, {spell(figure.ratio(ours, goal))} of it")


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows)
