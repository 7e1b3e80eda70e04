"""What the units of an adaptive sweep on several nodes have taken and measured: one object of their run, sweep.json.

Each unit writes into it when it asks the advisor: how its last arm ended, and which one it takes next. It is changed by
compare-and-swap alone, so that no arm is taken twice and nobody decides by what was true before. A unit that asks again
gets the arm that it has taken.

Why it is so: ADR 188.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode import s3_keys
from specdecode.experiment.base import MOST_DRAFTED, Name
from specdecode.experiment.level import Level
from specdecode.runs.state import LARGEST, StateDamaged
from specdecode.runs.swap import swap
from specdecode.speculation.advisor import Observation
from specdecode.store import Store


class StepOutcome(StrEnum):
    """How the step of a unit ended."""

    TAKEN = "taken"
    """It goes on."""
    MEASURED = "measured"
    LOST = "lost"
    """The arm cannot be compiled or served: no other unit tries it."""


class Seen(BaseModel):
    """What a step showed of its arm at one load: an Observation."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    level: Level
    draft: str
    k: int = Field(ge=1, le=MOST_DRAFTED)
    speedup: float = Field(ge=1e-6, le=1e6)
    tokens_per_step: float = Field(ge=1e-6, le=1e6)
    error: float = Field(ge=1e-9, le=1e6)
    """The bounds keep the advisor's sums finite. No measurement comes near them."""

    @property
    def observation(self) -> Observation:
        return Observation(self.draft, self.k, self.speedup, self.tokens_per_step, self.error)


class LedgerEntry(BaseModel):
    """One step of one unit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    unit: str
    """Its run id."""
    step: int = Field(ge=0)
    arm: Name | None
    """None: the unit ends here."""
    reason: str
    outcome: StepOutcome = StepOutcome.TAKEN
    seen: tuple[Seen, ...] = ()
    """Empty if the arm cannot be compared with its baseline."""
    left_open: bool = False
    """For an end (`arm` is None): whether arms may be left that are worth a measurement. So it is if other units were
    still measuring, or if this unit had taken all steps that it may take.
    """


class Ledger(BaseModel):
    """All steps of all units, in the order in which they were taken. Fields of a newer version are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    entries: tuple[LedgerEntry, ...] = ()

    def entry(self, unit: str, step: int) -> LedgerEntry | None:
        return next((each for each in self.entries if (each.unit, each.step) == (unit, step)), None)

    def of(self, unit: str) -> tuple[LedgerEntry, ...]:
        """The steps of one unit."""
        return tuple(each for each in self.entries if each.unit == unit)

    def plus(self, entry: LedgerEntry) -> Ledger:
        """The ledger with one more step. It stays as it is if the unit already has a step of that number."""
        if self.entry(entry.unit, entry.step):
            return self
        return self.model_copy(update={"entries": (*self.entries, entry)})

    def settled(self, ended: Iterable[LedgerEntry]) -> Ledger:
        """The ledger with the ends of these steps. A step that was freed with its unit, and so is missing, is added."""
        found = self
        for each in ended:
            at = found.entry(each.unit, each.step)
            entries = tuple(each if known is at else known for known in found.entries)
            found = found.model_copy(update={"entries": entries if at else (*entries, each)})
        return found

    def given_up(self, units: Collection[str]) -> Ledger:
        """The ledger without the arms that these units took and did not finish. Other units may take them."""
        kept = (each for each in self.entries if each.unit not in units or not _goes_on(each))
        return self.model_copy(update={"entries": tuple(kept)})

    def unfinished_of(self, units: Collection[str]) -> tuple[str, ...]:
        """Arms that these units have taken and not finished."""
        return tuple(
            each.arm for each in self.entries if each.unit in units and each.arm is not None and _goes_on(each)
        )

    @property
    def taken(self) -> tuple[str, ...]:
        """Arms on their way, in order."""
        return tuple(each.arm for each in self.entries if each.arm is not None and _goes_on(each))

    @property
    def steps(self) -> int:
        """How many arms were taken, those that were measured again among them."""
        return sum(each.arm is not None for each in self.entries)

    @property
    def lost(self) -> set[str]:
        """Arms that nobody takes again: they cannot be served, or not compared."""
        ended = (each for each in self.entries if each.arm is not None and not _goes_on(each))
        return {each.arm for each in ended if each.arm is not None and not each.seen}

    @property
    def observations(self) -> dict[Level, list[Observation]]:
        """All that was measured, by load."""
        found: dict[Level, list[Observation]] = {}
        for each in (seen for entry in self.entries for seen in entry.seen):
            found.setdefault(each.level, []).append(each.observation)
        return found

    @property
    def is_over(self) -> bool:
        """Whether the sweep came to its own end: the last unit that asked was told so, and nobody is on the way."""
        return bool(self.entries) and self.entries[-1].arm is None and not self.entries[-1].left_open and not self.taken


def _goes_on(entry: LedgerEntry) -> bool:
    return entry.arm is not None and entry.outcome is StepOutcome.TAKEN


def read_ledger(store: Store, run_id: str) -> Ledger:
    """The ledger of a run; empty where it has none. Raises StateDamaged."""
    return _load(store, run_id)[0]


def readable_ledger(store: Store, run_id: str) -> Ledger | None:
    """The ledger of a run. None if it cannot be read: the report then has what the units measured all the same."""
    try:
        return read_ledger(store, run_id)
    except StateDamaged:
        return None


def change_ledger(store: Store, run_id: str, change: Callable[[Ledger], Ledger]) -> Ledger:
    """Apply the pure function `change` to the newest state and store the result; what now holds. Raises StateDamaged,
    swap.Contended, or boto3's errors.
    """
    key = _key(run_id)

    def write(ledger: Ledger, condition: Mapping[str, str]) -> None:
        store.write(key, ledger.model_dump_json(indent=1), condition=condition)

    return swap(lambda: _load(store, run_id), write, change, what=store.url(key))


def _load(store: Store, run_id: str) -> tuple[Ledger, str | None]:
    key = _key(run_id)
    data, etag = store.read_tagged(key, at_most=LARGEST + 1)
    if data is None:
        return Ledger(), None
    again = f"`specdecode run --resume {run_id}` goes on from what was measured"
    if len(data) > LARGEST:
        raise StateDamaged(f"{store.url(key)} is no record of a sweep: it is larger than {LARGEST} bytes; {again}")
    try:
        return Ledger.model_validate_json(data), etag
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        text = f"{store.url(key)} is no record of a sweep: {where}: {first['msg']}; {again}"
        raise StateDamaged(text) from None


def _key(run_id: str) -> str:
    return s3_keys.run_key(run_id, "sweep.json")
