"""What earlier processes of a run measured; and the number of requests of each case: as many as asked, or as many as
settle its speed-up.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product

from specdecode.benchmark.results import Results
from specdecode.escape import counted
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import PER_STREAM, Level, TestCase
from specdecode.measures.metrics.formulas import request_output_throughput
from specdecode.measures.observations import Asked, asked, difference, interim_counts, settled
from specdecode.records import ErrorKind, RequestRecord

Key = tuple[str, str, str]
"""Arm, case and level."""


class Enough:
    """Knows the measured requests of each arm, case and level, and when they are enough."""

    def __init__(self, spec: BenchmarkSpec) -> None:
        self._spec = spec
        here = {arm.variant for arm in spec.arms}
        self._pairs = [(arm.compare_to, arm.variant) for arm in spec.arms if arm.compare_to in here]
        self._logs: dict[Key, dict[Asked, float]] = defaultdict(dict)
        self._earlier: dict[Key, int] = defaultdict(int)
        self.measured: dict[Key, set[int]] = defaultdict(set)
        """Indices of the requests of this round, which are not sent again."""
        self._unanswered: Counter[str] = Counter()

    def again(self, record: RequestRecord) -> bool:
        """Whether a request of an earlier process is sent again, as nobody answered: no connection was made, or it
        closed before a word came. Every other failure stays (ADR 71).
        """
        kind = record.error and record.error.kind
        found = record.round == self._spec.round and kind in (ErrorKind.CONNECT, ErrorKind.RESET) and not record.chunks
        self._unanswered[record.variant] += found and not record.warmup
        return found

    def told(self) -> Iterator[str]:
        """How many requests are sent again: a sentence for each arm."""
        for arm, many in (+self._unanswered).items():
            yield (
                f"{arm}: {counted(many, 'request')} found no server, or lost it before a word came. When the benchmark "
                "was resumed, they were sent again."
            )

    def add(self, record: RequestRecord) -> None:
        """Take note of a measured request, of this round or of one before it."""
        levels = self._spec.workload.levels
        key = record.variant, record.case, record.level or levels[0].name
        if record.warmup:
            return
        if record.round != self._spec.round:
            self._earlier[key] = max(self._earlier[key], record.index + 1)
            return
        self.measured[key].add(record.index)
        if record.error is None and (value := request_output_throughput.known(record)):
            self._logs[key][asked(record)] = math.log(value)

    def progress(self, variant: str) -> tuple[int, int]:
        """Requests of an arm that are measured in this round, and the most that it gets."""
        load = self._spec.workload
        cells = [(case, level) for case in load.cases for level in load.levels]
        done = sum(len(self.measured[variant, case.name, level.name]) for case, level in cells)
        return done, sum(load.requests_of(case, level) for case, level in cells)

    def portions(self, case: TestCase, level: Level, *, alternate: bool, turns: int = 1) -> Iterator[int]:
        """Number of requests that each arm has been sent after each portion, until the speed-up is settled.

        Arms that alternate do so after every request, or after PER_STREAM conversations a stream, so that the streams
        are busy together: a conversation, of at most `turns` requests, keeps one stream. An open loop and a load of
        several clients are one portion.
        """
        least = PER_STREAM * level.concurrency * turns if level.concurrency and level.concurrency > 1 else 1
        whole = not alternate or level.rate is not None or self._spec.clients(level) > 1
        sent = 0
        for count in self._interim_counts(case, level, least):
            parts = 1 if whole else max(1, (count - sent) // least)
            parts -= parts > 1 and parts % 2  # A B, B A: with an even number, each arm is first equally often
            yield from (sent + (count - sent) * number // parts for number in range(1, parts + 1))
            sent = count

    def _interim_counts(self, case: TestCase, level: Level, least: int) -> Iterator[int]:
        """Number of requests after which to test whether the speed-up is settled, `least` apart.

        A later round sends as many as the round before it, so that each request is measured equally often. If several
        clients load a level, all its requests are sent: one client's results cannot settle it for the others.
        """
        load = self._spec.workload
        most = load.requests_of(case, level)
        if load.requests.precision is None or self._spec.clients(level) > 1:
            yield most
        elif before := self._of_earlier_rounds(case.name, level):
            yield before
        elif not self._pairs:
            yield most
        else:
            for count in interim_counts(max(load.fewest_of(case, level), least), most, max(4, least)):
                yield count
                if self._settled(case.name, level, load.requests.precision):
                    return

    def _of_earlier_rounds(self, case: str, level: Level) -> int:
        """Requests of earlier rounds; 0 if an arm is new. An arm that is compared with none counts by itself."""
        names = [other for _, other in self._pairs] or [arm.variant for arm in self._spec.arms]
        counts = [self._earlier[name, case, level.name] for name in names]
        return max(counts) if all(counts) else 0

    def _settled(self, case: str, level: Level, precision: float) -> bool:
        return all(
            settled(difference(self._logs[base, case, level.name], self._logs[other, case, level.name]), precision)
            for base, other in self._pairs
        )


def earlier(results: Results, spec: BenchmarkSpec) -> tuple[Enough, int, float | None]:
    """What all clients have measured before, the number of processes that did, and the wall clock at the beginning of
    the first, None if nothing was measured. Raises BadResults.
    """
    enough, session, began = Enough(spec), 0, math.inf
    for arm, case, client in product(spec.arms, spec.workload.cases, range(spec.most_clients)):
        for record in results.load(arm.variant, case.name, client, again=enough.again):
            enough.add(record)
            session, began = max(session, record.session + 1), min(began, record.started_at - record.sent_s)
    return enough, session, began if session else None
