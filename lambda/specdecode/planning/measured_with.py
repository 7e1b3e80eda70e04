"""With which bytes a run measured: a folder of models or artifacts -> the hashes that it had then, the newest last.

A run that goes on may find such a folder made anew, with other bytes (ADR 201). Its report says so.
"""

from collections.abc import Iterable, Iterator, Mapping

from specdecode import s3_keys
from specdecode.planning.plan import Plan
from specdecode.planning.waves import Arm


def noted(
    plan: Plan, arms: Iterable[Arm], *, contents: Mapping[str, str], before: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """`before`, and what `arms` are measured with. `contents`: folder -> the hash that it has now, which is the newest.

    A folder without a known hash is left out.
    """
    found = dict(before)
    for arm in arms:
        models = plan.served.models_of(plan.served.variant(arm.variant))
        for folder in (s3_keys.compiled_prefix(arm.fingerprint), *(model.prefix for model in models)):
            if now := contents.get(folder):
                found[folder] = (*(other for other in found.get(folder, ()) if other != now), now)
    return found


def mixed(arms: Iterable[Arm]) -> Iterator[str]:
    """A sentence for each variant that was measured, whole or in part, with several artifacts. `arms`: as measured."""
    found: dict[str, dict[str, tuple[bool, set[int]]]] = {}
    for arm in arms:
        ahead = bool(arm.fallback)
        found.setdefault(arm.variant, {}).setdefault(arm.fingerprint, (ahead, set()))[1].add(arm.round + 1)
    for variant, artifacts in sorted(found.items()):
        if len(artifacts) > 1:
            told = "; ".join(
                f"{made}{' (compiled on a CPU node)' if ahead else ''} in round {', '.join(map(str, sorted(rounds)))}"
                for made, (ahead, rounds) in artifacts.items()
            )
            yield f"{variant} was not measured with one artifact, so that its rounds may differ: fingerprint {told}."


def newest(folder: str, *, contents: Mapping[str, str], measured: Mapping[str, tuple[str, ...]]) -> str:
    """The hash of the folder's files: this run's, or the last that was measured with. "" if none is known."""
    return contents.get(folder) or next(reversed(measured.get(folder, ())), "")


def remade(*, contents: Mapping[str, str], measured: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """A sentence for each artifact and model that was made anew, with other bytes, after measuring had begun."""
    for folder, hashes in sorted(measured.items()):
        now = newest(folder, contents=contents, measured=measured)
        if before := [each for each in hashes if each != now]:
            had = ", then ".join(before)
            yield f"{folder} was made anew after measuring had begun: its files had SHA-256 {had}, and have {now} now."
