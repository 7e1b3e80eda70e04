"""Continuous batching with a step time that is known: what the reference server answers with in its step mode."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """A step of `running` sequences takes `base_s + per_sequence_s * running` seconds and yields tokens of each.

    The first step of an answer yields one token. Each later one yields one and those of `k` drafts that are accepted:
    each with the chance `acceptance`, given that those before it were.
    """

    base_s: float
    per_sequence_s: float = 0.0
    k: int = 0
    acceptance: float = 0.0

    def step_s(self, running: float) -> float:
        return self.base_s + self.per_sequence_s * running

    def sizes(self, tokens: int, rng: random.Random) -> list[int]:
        """Tokens of each step of an answer."""
        made = [1]
        while (left := tokens - sum(made)) > 0:
            accepted = next((n for n in range(self.k) if rng.random() >= self.acceptance), self.k)
            made.append(min(left, 1 + accepted))
        return made

    def request_s(self, at_once: float, tokens: int) -> float:
        """Geometric mean of the time of an answer with so many requests under way in a closed loop.

        A request that follows another comes when the next step has begun, and waits for its end: of an answer's time
        one step is spent outside the batch.
        """
        rng = random.Random(0)
        steps = [len(self.sizes(tokens, rng)) for _ in range(5_000)]
        mean = sum(steps) / len(steps)
        waited = math.exp(sum(math.log(each + 1) for each in steps) / len(steps))
        return waited * self.step_s(at_once * mean / (mean + 1))


@dataclass
class Batch:
    """Who is in the step that runs, and who waits for the next. Times: the monotonic clock's."""

    time: StepTime
    inside: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    runs: bool = False

    def begin(self, at: float) -> float:
        """Everybody who waits is in the step that begins; when it ends."""
        self.inside, self.waiting, self.runs = self.waiting, [], True
        return at + self.time.step_s(len(self.inside))
