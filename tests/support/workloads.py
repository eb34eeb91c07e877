"""A workload whose every task can be counted beforehand: many sources with one cursor each, aggregated one by one, joined downstream."""

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from tracelake_sdk.client import Client

DAG = "many_sources"

_SOURCE = """
  - name: source_{n}
    activation: source
    source: {{kind: manual}}
    runtime: dispatcher
    operator: emit
    config: {{cursor: integer}}
    outputs: [{{layer: bronze, description: Cursors}}]
  - name: ranges_{n}
    activation: reactive
    inputs: [{{from: {{job: source_{n}, output: 0}}}}]
    runtime: dispatcher
    operator: range_aggregator
    config: {{cursor: integer, range_size: {range_size}}}
    outputs: [{{layer: bronze, description: Ranges}}]
"""
_JOINED = """
  - name: {name}
    activation: reactive
    inputs: [{inputs}]
    runtime: dispatcher
    operator: noop
"""


@dataclass(frozen=True)
class ManySources:
    """Each source emits the cursors 0, 1, 2 …; `every` gets each of them, `whole` each complete range."""

    sources: int
    cursors: int
    range_size: int = 4
    max_attempts: int = 50  # so many that no kill uses them up

    @property
    def definition(self) -> str:
        numbers = range(1, self.sources + 1)
        jobs = [_SOURCE.format(n=n, range_size=self.range_size) for n in numbers]
        for name, reads in (("every", "source"), ("whole", "ranges")):
            jobs.append(_JOINED.format(name=name, inputs=", ".join(f"{{from: {{job: {reads}_{n}, output: 0}}}}" for n in numbers)))
        return f"name: {DAG}\ndefaults: {{domain: test, owner: test, max_attempts: {self.max_attempts}}}\njobs:\n{''.join(jobs)}"

    def deploy(self, client: Client) -> None:
        client.dags.deploy(self.definition)

    def request(self, client: Client, source: int) -> UUID:
        """Asks one source for its run; the same request again is the same task."""
        return client.dags.run(DAG, f"source_{source}", {"cursors": list(range(self.cursors))}, idempotency_key=f"source {source}").id

    def request_all(self, client: Client) -> list[UUID]:
        return [self.request(client, source) for source in range(1, self.sources + 1)]

    def expected(self, *, ran: int | None = None, **instead: int) -> Counter[tuple[str, str]]:
        """The tasks by job and state when the last `ran` sources ran and the others ended in another state, such as `canceled=2`."""
        ran = self.sources if ran is None else ran
        assert ran + sum(instead.values()) == self.sources
        states = [state for state, number in instead.items() for _ in range(number)] + ["completed"] * ran
        tasks = Counter({(f"source_{n}", state): 1 for n, state in enumerate(states, start=1)})
        for n in range(self.sources - ran + 1, self.sources + 1):
            tasks[f"ranges_{n}", "completed"] = self.cursors
            tasks["every", "completed"] += self.cursors
            tasks["whole", "completed"] += (self.cursors - 1) // self.range_size
        return tasks
