"""Tasks and attempts, the only slice that joins the ones below it in one transaction.

A task runs through two rooms: `claims` hands it to a worker, `completions` takes the report and emits the events that make the next tasks.
Beside them is what both share (`task_state`, `judgement`, `routing`, `finishing`, `store`) and what people do: `requesting`, `canceling`, `pausing`, `views`.
"""
