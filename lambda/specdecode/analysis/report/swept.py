"""Pictures of the page over what was swept (serving settings, lengths of answers), and over the requests of a run, as
figures 3, 4 and 5 of AWS's article show them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, cycle
from typing import Any, NamedTuple

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import digits, seconds, times
from specdecode.analysis.results.pairs import Estimate
from specdecode.analysis.statistics.measured import speeds
from specdecode.analysis.texts.decide import about
from specdecode.escape import line
from specdecode.experiment.workload import ARTICLE, TestCase

Line = tuple[str, str, "Points"]
"""Name, colour, points."""
Points = dict[float, tuple[float, float | None, float | None, bool]]
"""Where -> the figure there, the ends of its interval, and whether the load generator fell behind there."""
SPOKEN = 12
"""Most points of a line that are said one by one."""
PLAIN = "without speculation"
E2E = "end_to_end_latency"
SHOW: dict[str, Callable[[float], str]] = {"×": times, "s": seconds, "": digits}
"""Unit -> how a figure is said."""
FIGURES = (
    (3, "end-to-end latency", E2E, "took_s"),
    (4, "inter-token latency (decode)", "time_per_output_token", "tpot_s"),
    (5, "TTFT (prefill)", "ttft", "ttft_s"),
)
"""Number in the article, what it shows, the metric, and its field of a request in the timeline."""


class Picture(NamedTuple):
    """A figure over something. `log`: its places are few, each has a tick, and they grow by factors."""

    title: str
    over: str
    unit: str
    lines: Sequence[Line]
    log: bool = False

    @property
    def words(self) -> str:
        """`Speed-up, over max_num_seqs: k=5 1.90× at 1, 1.52× at 4`."""
        return f"{self.title}, over {self.over}: {'; '.join(map(self._said, self.lines))}"

    @property
    def doubtful(self) -> bool:
        """Whether the load generator fell behind somewhere."""
        return any(late for *_, points in self.lines for *_, late in points.values())

    @property
    def data(self) -> dict[str, Any]:
        """As the script draws it. Names are plain text."""
        lines = [
            {"name": line(name), "colour": colour, "points": [(at, *points[at]) for at in sorted(points)]}
            for name, colour, points in self.lines
        ]
        return {"over": self.over, "unit": self.unit, "log": self.log, "lines": lines}

    def _said(self, one: Line) -> str:
        (name, _, points), show = one, SHOW[self.unit]
        found = [figure for figure, *_ in points.values()]
        if len(found) > SPOKEN:
            return f"{name} {show(min(found))} to {show(max(found))} in {len(found)} requests"
        return f"{name} {', '.join(f'{show(figure)} at {digits(at)}' for at, (figure, *_) in points.items())}"


class Pictures:
    """All of a comparison, with their numbers. `colour`: of an arm; `palette`: of lines that are no single arm."""

    def __init__(self, comparison: Comparison, colour: Callable[[str], str], palette: Sequence[str]) -> None:
        self._comparison, self._colour, self._palette = comparison, colour, palette
        self._best, number = about(comparison), count()
        self.settings, self.lengths, self.article = (
            [(next(number), picture) for picture in made if any(points for *_, points in picture.lines)]
            for made in (self._over_settings(), self._over_lengths(), self._of_the_article())
        )

    @property
    def data(self) -> list[dict[str, Any]]:
        """Data of all pictures by their numbers."""
        return [picture.data for _, picture in (*self.settings, *self.lengths, *self.article)]

    def _lines(self, named: Mapping[str, Points]) -> list[Line]:
        colours = cycle(self._palette)
        return [(n, "var(--base)" if n.startswith(PLAIN) else next(colours), points) for n, points in named.items()]

    def _over_settings(self) -> Iterator[Picture]:
        experiment, written = self._comparison.experiment, speeds(self._comparison.arms)
        for field in experiment.setting_of(experiment.variants[0]):
            gains, speed = defaultdict[str, Points](dict), defaultdict[str, Points](dict)
            for pair in self._comparison.pairs:
                arm, late = experiment.variant(pair.variant), any(case.late for case in pair.cases)
                whole = pair.group("all")
                gain = pair.among.speedup if pair.among else whole.headline if whole else None
                if pair.distrusted or not gain or not arm.speculation:
                    continue
                setting, spec = experiment.setting_of(arm), arm.speculation
                at, *others = (setting.pop(field), *(f", {name}={value}" for name, value in setting.items()))
                name = f"{spec.draft.id.rpartition('/')[2]}, {spec.k_in_words}{''.join(others)}"
                gains[name][at] = _point(gain, late)
                for own, of in ((f"{PLAIN}{''.join(others)}", pair.baseline), (name, pair.variant)):
                    if of in written:
                        speed[own][at] = (written[of], None, None, late)
            yield Picture("Speed-up (95% CI)", field, "×", self._lines(gains), log=True)
            yield Picture("Output tokens a second of the server", field, "", self._lines(speed), log=True)

    def _over_lengths(self) -> Iterator[Picture]:
        """Of cases that differ in the length of the answer alone."""
        pair, alike = self._best, defaultdict[str, list[str]](list)
        for own in self._comparison.experiment.workload.cases:
            alike[own.model_dump_json(exclude={"name", "label", "output_tokens", "requests"})].append(own.name)
        found = [names for names in alike.values() if len(names) > 1]
        swept = {name: names[0].rpartition("-out")[0] or names[0] for names in found for name in names}
        gains, saved = defaultdict[str, Points](dict), defaultdict[str, Points](dict)
        for case in pair.cases if pair and not pair.distrusted else ():
            name, base = swept.get(case.case), self._comparison.arm(pair.baseline, case.case) if pair else None
            whole = next((each for each in case.speedups if each.metric == E2E), None)
            if not name or not base or not base.completed or not case.comparable or not case.headline:
                continue
            at, took = base.output_tokens / base.completed, base.metrics.get(E2E)
            gains[name][at] = _point(case.headline, case.late)
            if whole and took and (now := took.p50) is not None:
                low, high = (end and now * (1 - 1 / end) for end in (whole.low, whole.high))
                saved[name][at] = (now * (1 - 1 / whole.ratio), low, high, case.late)
        over = "output tokens of an answer"
        yield Picture("Speed-up (95% CI)", over, "×", self._lines(gains), log=True)
        yield Picture("End-to-end gain: seconds that an answer takes less", over, "s", self._lines(saved), log=True)

    def _of_the_article(self) -> Iterator[Picture]:
        """Figures 3, 4 and 5, for one structured and one open-ended type of prompts: the article's own, if they were
        measured, with their longest answers.
        """
        load = self._comparison.experiment.workload
        nearest = sorted(reversed(load.cases), key=lambda case: (case.source == ARTICLE, load.output_tokens_of(case)))
        kinds = {case.structured: case for case in nearest}
        for number, name, tag, field in FIGURES if self._best else ():
            for case in (kinds[kind] for kind in (True, False) if kind in kinds):
                lines = list(self._requests(case, tag, field))
                yield Picture(f"Figure {number}: {name}, {case.name}", "request", "s", lines)

    def _requests(self, case: TestCase, tag: str, field: str) -> Iterator[Line]:
        """Of both arms the rounds that they share: a baseline may have more."""
        names = (self._best.baseline, self._best.variant) if self._best else ()
        own = [each for each in self._comparison.timeline if each.case == case.name]
        rounds = [{(each.round, each.session) for each in own if each.variant == name} for name in names]
        shared = set.intersection(*rounds) or set.union(*rounds)
        for name in names:
            arm, number = self._comparison.arm(name, case.name), count(1)
            points: Points = {
                next(number): (value, None, None, bool(arm and arm.late))
                for each in own
                if each.variant == name and (each.round, each.session) in shared and arm and tag in arm.metrics
                for request in each.shown
                if request.failed is None and (value := getattr(request, field)) is not None
            }
            yield self._comparison.experiment.variant(name).label, self._colour(name), points


def _point(found: Estimate, late: bool) -> tuple[float, float | None, float | None, bool]:
    return found.ratio, found.low, found.high, late
