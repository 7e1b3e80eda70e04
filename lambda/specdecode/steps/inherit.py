"""What a resumed run copies from the run that it resumes, so that its folder is complete."""

import json

from specdecode import s3_keys
from specdecode.planning import Plan
from specdecode.records import CONVERSATIONS, SERVERS
from specdecode.runs import PLAN
from specdecode.runs.state import RunState
from specdecode.store import Store


def inherit(store: Store, state: RunState, old: RunState) -> RunState:
    """Copy records, scores and counters of `old`. Returns which waves are measured and which are published.

    Whole waves are not measured again. In other waves the benchmark sends only requests without a record and requests
    that failed: the reason that ended the wave may be the reason why they failed.
    """
    base, target = s3_keys.run_prefix(old.run_id), s3_keys.run_prefix(state.run_id)
    whole = _measured_blocks(store, old)
    for key in store.keys(base + "raw/"):
        if not key.endswith(".jsonl"):
            continue  # notes of clients: of a Job that has ended
        data = _records(store.read(key) or b"", run_id=state.run_id, whole=whole)
        store.write(target + key[len(base) :], data, content_type="application/x-ndjson")
    for folder in ("accuracy", CONVERSATIONS):
        for key in store.keys(f"{base}{folder}/"):
            store.copy(key, target + key[len(base) :])
    servers = store.read_json(base + SERVERS)
    if servers is not None:
        store.write(target + SERVERS, json.dumps({**servers, "run_id": state.run_id}))
    taken = {
        "measured": old.measured,
        "inherited": old.measured,
        "published": old.published,
        "device_groups": old.device_groups,
    }
    return state.model_copy(update=taken)


def _measured_blocks(store: Store, old: RunState) -> set[tuple[str, int]]:
    """Variant and round of everything that `old` measured to the end."""
    data = store.read(s3_keys.run_key(old.run_id, PLAN))
    if data is None:
        return set()
    waves = [wave for wave in Plan.model_validate_json(data).waves if wave.index in old.measured]
    return {(arm.variant, wave.round) for wave in waves for arm in wave.arms}


def _records(data: bytes, *, run_id: str, whole: set[tuple[str, int]]) -> bytes:
    """The records that count, as records of `run_id`: the benchmark refuses those of another run. A last line that was
    cut is dropped.
    """
    records = [json.loads(line) for line in data.split(b"\n")[:-1]]
    kept = [r for r in records if r.get("error") is None or (r["variant"], r["round"]) in whole]
    return b"".join(json.dumps({**record, "run_id": run_id}).encode() + b"\n" for record in kept)
