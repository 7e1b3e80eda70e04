"""The run's own record, runs/<id>/state.json: what a step tells a later step, the command line or the report."""

from datetime import datetime
from typing import Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from specdecode import s3_keys
from specdecode.analysis.results.run_context import DeviceGroup, Failure
from specdecode.planning.waves import Arm
from specdecode.store import Store
from specdecode.untrusted import placed

PLAN = "plan.json"
LARGEST = 8 << 20
"""Most bytes of a record or a plan that are read: a plan of 1,000 cases is 207 KiB (docs/reference/faults.md)."""
Document = TypeVar("Document", bound=BaseModel)


class StateDamaged(Exception):
    """The stored document is no run's record or plan. Trying again cannot help."""


class RunState(BaseModel):
    """The record. Only one execution writes it, one step at a time. Fields that a newer version wrote are skipped."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    execution_arn: str
    experiment: str
    started_at: AwareDatetime
    execution_started: AwareDatetime | None = None
    """When its execution was started. A later execution of the same name has another time."""
    resumed_from: str | None = None
    started_by: str | None = None
    """Who started it, as the request says. It is not checked."""
    held_since: AwareDatetime | None = None
    """When the run got the node. Its cost counts from here."""
    pool: str | None = None
    """NodePool of that node. The run's pods select it."""
    released_at: AwareDatetime | None = None
    start_check_minutes: float | None = None
    """How long the start check took. None while it has not passed."""
    paid_compiles: dict[str, int] = {}
    """Step -> how many artifacts it may compile. A step without a number, as in older records, may compile any."""
    compiles: dict[str, tuple[str, ...]] = {}
    """Step -> what it has begun to compile or to wait for, each time that it found it missing."""
    awaited: dict[str, AwareDatetime] = {}
    """Fingerprint -> since when this run has waited for another run to compile it."""
    stopping_since: AwareDatetime | None = None
    """When StopArms first found something to wait for. None while nothing is being stopped."""
    node: str | None = None
    measured: tuple[int, ...] = ()
    """Waves whose benchmark is complete."""
    inherited: tuple[int, ...] = ()
    """Measured waves of the run that this one resumes. Their arms are not served again."""
    lost: tuple[int, ...] = ()
    """Waves of an adaptive sweep whose arm cannot be served. A resumed run tries them again."""
    published: tuple[int, ...] = ()
    """Waves whose requests' metrics are in CloudWatch."""
    published_data: dict[int, int] = {}
    """Wave -> how many of its metrics CloudWatch had taken when it refused the rest."""
    refused_artifacts: tuple[str, ...] = ()
    """Fingerprints of artifacts of CPU nodes that no server starts from. The node compiles them instead."""
    contents: dict[str, str] = {}
    """Folder of the bucket (`models/…/`, `compiled/…/`) -> its hash (specdecode.finished) when its step was done."""
    measured_with: dict[str, tuple[str, ...]] = {}
    """Folder -> the hashes that it had when waves were measured, whole or in part; the newest last. Those of the run
    that this one resumes count.
    """
    measured_arms: tuple[Arm, ...] = ()
    """Arms as waves were measured with them, whole or in part; the newest last. Those of the run that this one resumes
    count. Waves that an older version measured have none.
    """
    sent_back: tuple[int, ...] = ()
    """Waves that wait for the node to compile."""
    answering: tuple[str, ...] = ()
    """Arms that stay for questions now."""
    answers_until: AwareDatetime | None = None
    """When they are stopped."""
    device_groups: tuple[DeviceGroup, ...] = ()
    failures: tuple[Failure, ...] = ()

    def is_of(self, started: datetime | None) -> bool:
        """Whether it is of the execution that was started at `started` (None: of any), not of an earlier one of its
        name.
        """
        return started is None or self.execution_started == started


def load_state(store: Store, run_id: str) -> RunState | None:
    """The run's record. None if it has none. Raises StateDamaged."""
    return load_document(store, s3_keys.run_key(run_id, "state.json"), RunState, "run's record")


def load_document(store: Store, key: str, kind: type[Document], what: str) -> Document | None:
    """A document of ours. None if there is none. Raises StateDamaged, which calls it `what`."""
    data = store.read(key, at_most=LARGEST + 1)
    if data is None:
        return None
    if len(data) > LARGEST:
        raise StateDamaged(f"{store.url(key)} is no {what}: it is larger than {LARGEST} bytes")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise StateDamaged(f"{store.url(key)} is no {what}: {placed(first)}") from None


def save_state(store: Store, state: RunState) -> None:
    store.write(s3_keys.run_key(state.run_id, "state.json"), state.model_dump_json(indent=1))


def change_state(store: Store, run_id: str, *, failure: Failure | None = None, **changes: Any) -> RunState | None:
    """Store the record with `changes`, and with `failure` after its others. None if the run has no record."""
    state = load_state(store, run_id)
    if state is None:
        return None
    if failure and failure not in state.failures:
        changes["failures"] = (*state.failures, failure)
    changed = state.model_copy(update=changes)
    if changed != state:
        save_state(store, changed)
    return changed
