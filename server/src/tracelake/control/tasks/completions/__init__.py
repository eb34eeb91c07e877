"""From a report to its effects: `completing.Completions` judges and decides it, and `recording.Recording` records what was committed and emits its events."""
