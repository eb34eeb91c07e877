"""Tasks and attempts, the only slice that joins the ones below it in one transaction.

A task passes two packages: `claims` gives it to a worker, `completions` takes the report and emits the events that make the next tasks.
Beside them are the modules that both share (`task_state`, `judgement`, `routing`, `finishing`, `store`) and the actions of people: `requesting`, `canceling`, `pausing`, `views`.
"""
