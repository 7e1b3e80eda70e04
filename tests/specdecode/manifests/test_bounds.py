"""The namespace's quota holds the largest run with a hundred others in the queue."""

from collections import Counter

import pytest
from specdecode import names
from specdecode.assets import kubernetes_objects
from specdecode.experiment import load_preset, preset_names
from specdecode.manifests import all_objects

from rehearsal.kubernetes import quotas
from rehearsal.kubernetes.resources import BUILT_IN, PODS
from tests.plans import PRICED, plan_for

QUEUE = 100
RESOURCES = {(resource.api_version, resource.kind): resource for resource in BUILT_IN}


def uses(obj):
    """What an object counts for, with the pod that it makes."""
    found = Counter(quotas.usage(RESOURCES[obj["apiVersion"], obj["kind"]], obj))
    if obj["kind"] in ("Job", "Deployment"):
        found += Counter(quotas.usage(PODS, {}))
    return found


@pytest.mark.parametrize("preset", preset_names())
def test_the_bounds_hold_a_run_at_its_height_and_the_queue_behind_it(preset, ctx):
    plan = plan_for(load_preset(preset, overrides={"accuracy": True}), capacity=PRICED)
    begins, compiles = Counter({"configmaps": 1}), Counter[str]()
    by_wave: dict[str, Counter[str]] = {}
    for obj in all_objects(plan, ctx):
        labels = obj["metadata"]["labels"]
        if labels.get(names.COMPONENT_LABEL) == "staging":
            begins += uses(obj)
        elif labels.get(names.COMPONENT_LABEL) == "compile":
            compiles += uses(obj)
        elif names.WAVE_LABEL in labels:
            by_wave.setdefault(labels[names.WAVE_LABEL], Counter()).update(uses(obj))
    needed = Counter({key: amount * (QUEUE + 1) for key, amount in begins.items()}) + compiles
    needed += Counter({key: max(wave[key] for wave in by_wave.values()) for wave in by_wave.values() for key in wave})
    quota = next(obj for obj in kubernetes_objects("bounds.yaml") if obj["kind"] == "ResourceQuota")
    hard = {key: int(amount) for key, amount in quota["spec"]["hard"].items()}
    assert {"pods", "count/jobs.batch", "secrets", "services", "configmaps"} <= set(needed)
    assert {key: (needed[key], hard[key]) for key in hard if needed[key] > hard[key]} == {}
