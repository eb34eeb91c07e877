"""From a report to its effects: `completing.Completions` checks and decides it, and `recording.Recording` records what was committed and emits its events."""
