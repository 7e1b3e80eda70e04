"""Which arms are on the node together in each round, and in which order they take its devices.

Why it is so: ADR 62.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Pair = frozenset[str]
"""Two arms that are compared with each other."""


def pack(names: Sequence[str], pairs: Iterable[Pair], *, size: int, rounds: int) -> list[list[list[str]]]:
    """For each round its waves, each of at most `size` of `names`, in the order in which they are started.

    A round has the fewest waves. As many arms as possible share a wave with the arms that they are compared with;
    `pairs` that could not are together in a later round, as far as there is one. A baseline of more than `rounds` x
    (`size` - 1) arms is never beside all of them. Every other round goes backwards, and an arm starts in a place of its
    wave that it has had least: the scheduler hands out device groups in that order.
    """
    met = _partners(names, pairs)
    to_meet = {name: set(others) for name, others in met.items()}
    held = {name: Counter[int]() for name in names}
    packed = []
    for turn in range(rounds):
        groups = [_placed(group, met, held) for group in _groups(names, met, to_meet, held, size=size)]
        for group in groups:
            for at, name in enumerate(group):
                held[name][at] += 1
                to_meet[name].difference_update(group)
        packed.append(groups[::-1] if turn % 2 else groups)
    return packed


def _partners(names: Sequence[str], pairs: Iterable[Pair]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in names}
    for one, other in map(sorted, pairs):
        found[one].add(other)
        found[other].add(one)
    return found


def _groups(
    names: Sequence[str],
    met: Mapping[str, set[str]],
    to_meet: Mapping[str, set[str]],
    held: Mapping[str, Counter[int]],
    *,
    size: int,
) -> list[list[str]]:
    """Arms in groups, by the order of `names`: first those that have somebody `to_meet`.

    A group is left smaller, as far as the fewest waves have places to spare, before it takes an arm from its partner.
    """
    if size == 1:
        return [[name] for name in names]
    order, rest, groups = {name: at for at, name in enumerate(names)}, dict.fromkeys(names), []
    spare = -len(names) % size

    def to_come(name: str) -> int:
        return len(to_meet[name] & rest.keys())

    def suits(name: str, group: list[str]) -> tuple[int, int, int, int]:
        """Rank of a candidate: arms met for the first time, arms still to be met, arms met at all, and other places."""
        new = len(to_meet[name].intersection(group))
        same = sum(not held[name].keys().isdisjoint(held[other]) for other in group)
        return new, to_come(name) if new else -to_come(name), len(met[name].intersection(group)), -same

    while rest:
        group = [max(rest, key=to_come)]
        del rest[group[0]]
        while rest and len(group) < size:
            name = max(rest, key=lambda name: suits(name, group))
            free = size - len(group)
            if suits(name, group)[1] < 0 and free <= spare:
                spare -= free
                break
            group.append(name)
            del rest[name]
        groups.append(sorted(group, key=order.__getitem__))
    return sorted(groups, key=lambda group: order[group[0]])


def _placed(group: list[str], met: Mapping[str, set[str]], held: Mapping[str, Counter[int]]) -> list[str]:
    """The group, rotated so that its arms get places that they had least. Arms with many comparisons count more."""
    turned = [group[at:] + group[:at] for at in range(len(group))]
    return min(turned, key=lambda order: sum(held[name][at] * (1 + len(met[name])) for at, name in enumerate(order)))
