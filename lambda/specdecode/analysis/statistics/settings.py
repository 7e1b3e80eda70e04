"""Arms that are served with different settings: each is compared at its own setting, and one setting is decided about.

Why it is so: ADR 211.
"""

from collections.abc import Iterable, Sequence

from specdecode.analysis.results.pairs import Pair
from specdecode.experiment.model import Experiment
from specdecode.measures.arm_case import ArmCase


def speeds(arms: Iterable[ArmCase]) -> dict[str, float]:
    """Output tokens a second of each arm's server, over the cases that all of them have."""
    found: dict[str, dict[str, ArmCase]] = {}
    for each in arms:
        if each.load_seconds > 0:
            found.setdefault(each.variant, {})[each.case] = each
    cases = set.intersection(*map(set, found.values())) if found else set()
    return {
        name: sum(own[case].output_tokens for case in cases) / sum(own[case].load_seconds for case in cases)
        for name, own in found.items()
        if cases
    }


def at_fastest(experiment: Experiment, arms: Iterable[ArmCase], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs at the setting of the arm that writes most tokens a second. All of them if arms are served alike."""
    settings = {pair.variant: experiment.setting_in_words(experiment.variant(pair.variant)) for pair in pairs}
    known = speeds(arms)
    trusted = [pair for pair in pairs if not pair.distrusted and {pair.variant, pair.baseline} <= known.keys()]
    if len(set(settings.values())) < 2 or not trusted:
        return list(pairs)
    best = max(trusted, key=lambda pair: max(known[pair.variant], known[pair.baseline]))
    return [pair for pair in pairs if settings[pair.variant] == settings[best.variant]]
