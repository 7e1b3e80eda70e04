"""Every object of every preset is valid and complete: schema, security, placement, claims, requests, policies."""

import base64
import json
import re

import pytest
from specdecode import names
from specdecode.experiment import BenchmarkSpec, load_preset
from specdecode.experiment import capacity as node
from specdecode.experiment import claims as claims_of
from specdecode.manifests import RenderContext, serving, serving_name
from specdecode.manifests.naming import object_name
from specdecode.planning import first_served
from specdecode.planning.events import INTERVALS_S, JOB_GRACE_MINUTES
from specdecode.planning.timeline import COUNT_MINUTES, SMOKE_MINUTES

from tests import kubernetes_schema
from tests.plans import plan_for
from tests.pods import containers, engine_of, pods

CLIENTS = ("benchmark", "smoke", "accuracy")


def main(template):
    return engine_of({"spec": {"template": template}})


def test_valid_for_kubernetes_1_35_strictly(rendered):
    _, objects = rendered
    seen = set()
    for obj in objects:
        shape = re.sub(r"[0-9a-f]{6,}|\d+", "", json.dumps(obj))
        if shape not in seen:
            kubernetes_schema.validate(obj)
        seen.add(shape)
    kinds = {obj["kind"] for obj in objects}
    assert kinds == {"NetworkPolicy", "Job", "Deployment", "Service", "ConfigMap", "Secret"}


def test_every_arm_of_every_wave_is_there_once(rendered):
    plan, objects = rendered
    keys = [(obj["kind"], obj["metadata"]["name"]) for obj in objects]
    assert len(keys) == len(set(keys))
    deployments = [obj["metadata"]["labels"] for obj in objects if obj["kind"] == "Deployment"]
    served = [(labels[names.WAVE_LABEL], labels[names.VARIANT_LABEL]) for labels in deployments]
    assert served == [(str(wave.index), arm.variant) for wave in plan.waves for arm in wave.arms]
    components = [component for component, _, _ in pods(objects)]
    counting = [obj for obj in objects if obj["kind"] == "Job" and obj["metadata"]["name"].endswith("-count")]
    assert components.count("staging") == len(plan.models) + len(counting)
    assert components.count("compile") == len(plan.artifacts)
    for component in ("benchmark", "smoke"):
        assert components.count(component) == len(plan.waves)


def test_the_accuracy_of_each_variant_is_measured_once(rendered):
    plan, objects = rendered
    jobs = [(main(t)["command"][2], obj) for component, obj, t in pods(objects) if component == "accuracy"]
    tested = [arm for script, _ in jobs for arm in re.findall(r"--arm (\S+?)=", script)]
    assert sorted(tested) == sorted({arm.variant for wave in plan.waves for arm in wave.arms})
    for script, job in jobs:
        assert job["spec"]["activeDeadlineSeconds"] == (60 * script.count("--arm ") + JOB_GRACE_MINUTES) * 60


def test_the_step_ends_a_job_before_the_job_controller_would_and_with_it_the_log(rendered):
    """It does so at the first look after its own limit, a poll later at most; there is time for another."""
    plan, objects = rendered
    deadlines = plan.experiment.deadlines
    limits = {
        "staging": deadlines.staging,
        "start-check": deadlines.start_check,
        "compile": deadlines.compile,
        "smoke": SMOKE_MINUTES,
        "benchmark": deadlines.benchmark,
    }
    per_wave = {step.deadline_minutes for step in plan.steps if step.name == "Accuracy"}
    for component, obj, template in pods(objects):
        if obj["kind"] == "Job":
            of_arms = 60 * main(template)["command"][2].count("--arm ")
            assert component in limits or of_arms in per_wave
            limit = limits.get(component) or of_arms
            limit = COUNT_MINUTES if obj["metadata"]["name"].endswith("-count") else limit
            assert obj["spec"]["activeDeadlineSeconds"] - limit * 60 >= 2 * plan.poll_seconds
    assert 2 * INTERVALS_S[-1] <= JOB_GRACE_MINUTES * 60


def test_names_and_labels_are_legal(rendered):
    _, objects = rendered
    for obj in objects:
        name = obj["metadata"]["name"]
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name), "a Service's name begins with a letter"
        for value in obj["metadata"]["labels"].values():
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)
        assert obj["metadata"]["namespace"] == names.NAMESPACE


def test_pods_run_by_shell_in_the_working_directory(rendered):
    """That they are restricted is held by test_hardening.py, with the monitor among them."""
    _, objects = rendered
    for component, _, template in pods(objects):
        spec = template["spec"]
        assert spec["enableServiceLinks"] is (component in CLIENTS)
        assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 1000
        for name, container in containers(template).items():
            assert container["command"][:2] == ["/bin/sh", "-c"] and "args" not in container
            assert container["workingDir"] == names.WORKDIR
            script = container["command"][2]
            assert not re.search(rf"[\s\"'=]{names.WORKDIR}\b", script), "paths are relative to the working directory"
            fetched = {"bundle", "models"}
            written = {"fetch": fetched, "tiny-model": fetched, "compile": {"compiled"}}.get(name, set())
            for mount in container["volumeMounts"]:
                path = mount["mountPath"]
                assert path in ("/tmp", "/dev/shm") or path == names.WORKDIR or path.startswith(names.WORKDIR + "/")
                shared = path not in ("/tmp", "/dev/shm", names.WORKDIR)
                assert not shared or mount.get("readOnly", False) is (mount["name"] not in written)
            assert {"cpu", "memory", "ephemeral-storage"} == set(container["resources"]["requests"])
            assert "limits" not in container["resources"], "a CPU limit throttles"
        mounted = {m["name"] for c in containers(template).values() for m in c["volumeMounts"]}
        assert mounted == {v["name"] for v in spec["volumes"]}
        assert spec["serviceAccountName"] == names.SERVICE_ACCOUNTS.get(component, names.PLAIN_ACCOUNT)


def test_the_region_has_both_names_in_every_container_that_has_one(rendered):
    """EKS's webhook adds neither where one stands, and boto3 reads the second alone."""
    _, objects = rendered
    found = [
        {variable["name"]: variable.get("value") for variable in container.get("env", ())}
        for _, _, template in pods(objects)
        for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"])
    ]
    named = [env for env in found if "AWS_REGION" in env]
    assert named and all(env["AWS_DEFAULT_REGION"] == env["AWS_REGION"] for env in named)


def test_pods_claim_their_devices_and_land_on_the_node_of_their_pool(rendered):
    plan, objects = rendered
    serving_, shape = plan.experiment.serving, plan.experiment.shape
    for component, _, template in pods(objects):
        spec, container = template["spec"], main(template)
        claims = spec.get("resourceClaims", [])
        if component in ("start-check", "compile", "serving") and serving_.devices:
            assert claims == [
                {"name": "neuron", "resourceClaimTemplateName": claims_of.name_of(serving_.devices, shape)}
            ]
            assert container["resources"]["claims"] == [{"name": "neuron"}]
        else:
            assert not claims and "claims" not in container["resources"]
        if component == "staging":
            assert spec["nodeSelector"] == {"karpenter.sh/nodepool": names.STAGING_NODEPOOL}
            assert [each["key"] for each in spec["tolerations"]] == [names.DYNAMIC_TAINT]
        else:
            assert spec["nodeSelector"] == {names.ACCELERATOR_LABEL: shape.pool}
            assert shape.pool == {"m7i.4xlarge": "cpu", "m7i.24xlarge": "cpu-large"}.get(shape.name, "trn2")
        assert template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


def test_the_taint_of_the_node_is_tolerated_as_it_is(rendered):
    for component, _, template in pods(rendered[1]):
        if component != "staging":
            (toleration,) = template["spec"]["tolerations"]
            taint = names.NEURON_TAINT if rendered[0].experiment.shape.has_devices else names.CPU_TAINT
            assert toleration == {"key": taint, "operator": "Exists", "effect": "NoSchedule"}


def test_servers_have_shared_memory_and_time_to_end(rendered):
    for component, _, template in pods(rendered[1]):
        shm = [v["emptyDir"] for v in template["spec"]["volumes"] if v["name"] == "shm"]
        if component in ("start-check", "compile", "serving"):
            memory = quantity(main(template)["resources"]["requests"]["memory"])
            assert shm == [{"medium": "Memory", "sizeLimit": f"{min(128, int(memory) // 2)}Gi"}]
            assert template["spec"]["terminationGracePeriodSeconds"] >= 60
        else:
            assert shm == []


def test_compiling_fetches_all_that_the_arm_serves_and_leaves_time_to_upload(rendered):
    plan, objects = rendered
    jobs = [(o, containers(t)) for c, o, t in pods(objects) if c == "compile"]
    for (_, found), arm in zip(jobs, plan.compiles_to_do, strict=True):
        assert list(found) == ["fetch", "compile", "store"]
        fetching, script, _ = (container["command"][2] for container in found.values())
        models = [model.prefix for model in plan.experiment.models_of(plan.experiment.variant(arm.variant))]
        assert re.findall(r"--folder (\S+)", fetching) == models
        (minutes,) = re.findall(r"--minutes (\S+)", script)
        assert 0.5 <= float(minutes) / plan.experiment.deadlines.compile <= 0.9


def test_the_native_plugin_alone_wants_safetensors(rendered):
    plan, objects = rendered
    moving = [
        next(iter(containers(t).values()))["command"][2] for c, _, t in pods(objects) if c in ("staging", "compile")
    ]
    native = plan.engine.dialect == "native-plugin"
    assert ["--safetensors" in script for script in moving] == [native] * len(moving)


def test_fp8_weights_alone_are_rescaled(rendered):
    plan, objects = rendered
    moving = [t for c, obj, t in pods(objects) if c == "staging" and not obj["metadata"]["name"].endswith("-count")]
    scripts = [main(template)["command"][2] for template in moving]
    rescaled = [model.rescale_fp8 for model in plan.models_to_stage]
    assert ["--rescale-fp8" in script for script in scripts] == rescaled
    assert any(rescaled) is (plan.experiment.name == "llama-3.1-405b")


def quantity(text):
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text.removesuffix("Gi"))


def test_a_wave_fits_on_the_node_with_room_for_daemonsets_and_mountpoint(rendered):
    plan, objects = rendered
    by_wave: dict[str, list] = {}
    for component, obj, template in pods(objects):
        requests = {k: quantity(v) for k, v in main(template)["resources"]["requests"].items()}
        if component == "compile":
            assert requests["cpu"] <= 180
            assert requests["cpu"] + node.RESERVED_CPU <= plan.experiment.shape.cpu
            assert requests["memory"] + node.RESERVED_MEMORY_GIB <= plan.experiment.shape.memory_gib
            assert requests["ephemeral-storage"] <= plan.experiment.shape.disk_gib
        elif component in ("serving", "benchmark"):
            by_wave.setdefault(obj["metadata"]["labels"][names.WAVE_LABEL], []).append((component, requests))
    assert len(by_wave) == len(plan.waves)
    for wave in by_wave.values():
        if plan.experiment.node == "trn2.48xlarge":
            cpus = min(80, 10 * plan.experiment.serving.devices)
            assert {r["cpu"] for c, r in wave if c == "serving"} == {cpus}
            assert {r["cpu"] for c, r in wave if c == "benchmark"} == {8}
        assert sum(r["cpu"] for _, r in wave) + node.RESERVED_CPU <= plan.experiment.shape.cpu
        assert sum(r["memory"] for _, r in wave) + node.RESERVED_MEMORY_GIB <= plan.experiment.shape.memory_gib
        assert sum(r["ephemeral-storage"] for _, r in wave) <= plan.experiment.shape.disk_gib


def test_deployments_wait_as_long_as_the_deadline_and_never_surge(rendered):
    plan, objects = rendered
    limit = plan.experiment.deadlines.serve * 60
    for obj in (o for o in objects if o["kind"] == "Deployment"):
        spec, container = obj["spec"], main(obj["spec"]["template"])
        assert spec["strategy"] == {"type": "Recreate"} and spec["replicas"] == 1
        assert spec["progressDeadlineSeconds"] == limit
        startup = container["startupProbe"]
        assert limit <= startup["periodSeconds"] * startup["failureThreshold"] < limit + 60
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
            assert container[probe]["timeoutSeconds"] <= 60
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        claims = {v["persistentVolumeClaim"]["claimName"]: v["persistentVolumeClaim"]["readOnly"]
                  for v in spec["template"]["spec"]["volumes"] if "persistentVolumeClaim" in v}  # fmt: skip
        mounted = ("models", "compiled") if plan.engine.artifact else ("models",)
        assert claims == {f"specdecode-{prefix}": True for prefix in mounted}


def test_services_select_exactly_their_arm(rendered):
    _, objects = rendered
    deployments = {o["metadata"]["name"]: o for o in objects if o["kind"] == "Deployment"}
    services = [o for o in objects if o["kind"] == "Service"]
    assert len(services) == len(deployments)
    for service in services:
        pod = deployments[service["metadata"]["name"]]["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"] == pod
        assert service["spec"]["type"] == "ClusterIP"
    assert len({json.dumps(s["spec"]["selector"], sort_keys=True) for s in services}) == len(services)


def test_jobs_retry_what_may_pass_and_stop_at_what_cannot(rendered):
    _, objects = rendered
    for _, obj, template in pods(objects):
        if obj["kind"] != "Job":
            continue
        assert template["spec"]["restartPolicy"] == "Never"
        assert obj["spec"]["backoffLimit"] >= 1
        (rule,) = obj["spec"]["podFailurePolicy"]["rules"]
        assert 70 not in rule["onExitCodes"]["values"], "a compiler crash is tried again"
        assert {64, 65, 66, 77} <= set(rule["onExitCodes"]["values"])
        assert obj["spec"]["activeDeadlineSeconds"] > 0


def test_the_hugging_face_token_reaches_gated_stagings_only(rendered):
    plan, objects = rendered
    gated = {model.model.prefix for model in plan.models if model.model.gated}
    with_token = 0
    for component, _, template in pods(objects):
        container = main(template)
        if "HF_TOKEN" in json.dumps(container):
            assert component == "staging"
            assert [e["value"] for e in container["env"] if e["name"] == "HF_TOKEN_SECRET"] == [names.HF_TOKEN_SECRET]
            with_token += 1
    assert with_token == len(gated)


def test_the_benchmarks_spec_can_be_read_back_and_says_what_the_plan_says(rendered, ctx):
    plan, objects = rendered
    maps = [o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].endswith("-benchmark")]
    for wave, config in zip(plan.waves, maps, strict=True):
        spec = BenchmarkSpec.model_validate_json(config["data"]["spec.json"])
        assert (spec.run_id, spec.wave, spec.round) == (ctx.run_id, wave.index, wave.round)
        assert [arm.variant for arm in (*spec.arms, *spec.readers)] == [arm.variant for arm in wave.arms]
        for arm in spec.arms:
            speculation = plan.experiment.variant(arm.variant).speculation
            assert arm.num_speculative_tokens == (speculation and speculation.num_speculative_tokens)
        assert spec.trusted_counters is plan.engine.metrics.trusted
        assert spec.workload == plan.experiment.workload
        assert spec.accounting == "usage"
        assert spec.model == plan.experiment.target.id


def test_clients_name_every_arm_by_the_variable_of_its_service(rendered, ctx):
    plan, objects = rendered
    jobs = [
        (o["metadata"]["labels"], main(t)["command"][2])
        for c, o, t in pods(objects)
        if c in ("benchmark", "smoke", "accuracy")
    ]
    for labels, script in jobs:
        wave = plan.waves[int(labels[names.WAVE_LABEL])]
        tested = labels[names.COMPONENT_LABEL] == "accuracy"
        for arm in first_served(plan.waves, wave) if tested else wave.arms:
            variable = serving_name(arm, ctx).upper().replace("-", "_") + "_SERVICE_HOST"
            reads = plan.experiment.variant(arm.variant) in plan.experiment.readers
            option = "--reader" if reads and labels[names.COMPONENT_LABEL] == "benchmark" else "--arm"
            assert f'{option} {arm.variant}="http://${variable}:8000"' in script


def keys_of(template):
    """Variable -> Secret of the variables that come from one."""
    references = [(e["name"], e["valueFrom"]["secretKeyRef"]) for e in main(template)["env"] if "valueFrom" in e and
                  "secretKeyRef" in e["valueFrom"]]  # fmt: skip
    assert {reference["key"] for _, reference in references} <= {"api-key"}
    return {name: reference["name"] for name, reference in references}


def test_each_arm_has_a_key_that_its_server_and_its_clients_alone_refer_to(rendered, ctx):
    plan, objects = rendered
    made = [o for o in objects if o["kind"] == "Secret" and "api-key" in o["data"]]
    secrets = {o["metadata"]["name"]: base64.b64decode(o["data"]["api-key"]) for o in made}
    arms = [arm for wave in plan.waves for arm in wave.arms]
    assert set(secrets) == {serving_name(arm, ctx) for arm in arms}
    assert len(set(secrets.values())) == len(arms), "no two arms share a key"
    assert all(len(base64.urlsafe_b64decode(key + b"=")) == 32 for key in secrets.values())
    for component, obj, template in pods(objects):
        labels = obj["metadata"]["labels"]
        wave = plan.waves[int(labels.get(names.WAVE_LABEL, 0))]
        asked = first_served(plan.waves, wave) if component == "accuracy" else wave.arms
        if component == "serving":
            assert keys_of(template) == {"VLLM_API_KEY": obj["metadata"]["name"]}
        elif component in CLIENTS:
            assert keys_of(template) == {names.api_key_variable(a.variant): serving_name(a, ctx) for a in asked}
        else:
            assert keys_of(template) == {}
    elsewhere = json.dumps([o for o in objects if o["kind"] != "Secret"])
    assert not any(key.decode() in elsewhere for key in secrets.values())


def test_variables_of_keys_are_legal_and_never_shared():
    given = ["base", "sd-k7", "a.b", "a-b", "a--b", "a.-b", "apb", "0"]
    variables = [names.api_key_variable(name) for name in given]
    assert len(set(variables)) == len(given)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable) for variable in variables)
    assert names.api_key_variable("sd-k7") == "OPENAI_API_KEY_SD_K7"


def test_object_names_are_unique_and_stable():
    assert object_name("run", "w0", "sd") == object_name("run", "w0", "sd")
    assert object_name("run", "w0", "a.b") != object_name("run", "w0", "a-b"), "both become a-b"
    assert object_name("run", "w0", "sd") != object_name("run2", "w0", "sd")
    long = [object_name("r", "w0", "x" * 50 + str(n), "serving") for n in range(3)]
    assert len(set(long)) == 3 and all(len(name) <= 63 for name in long)


def test_run_labels_of_long_and_odd_run_ids_are_legal_and_differ():
    legal = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
    ids = ["a" * 80, "a" * 79 + "b", "x.", "x_", "ok-1", "x"]
    values = [names.run_label(i) for i in ids]
    assert all(legal.fullmatch(v) for v in values) and len(set(values)) == len(ids)
    assert values[4] == "ok-1"


@pytest.mark.parametrize("field", [{"run_id": "a b"}, {"bundle_uri": "http://x/y"}, {"bundle_sha256": "xyz"}])
def test_context_is_checked(ctx, field):
    with pytest.raises(ValueError):
        RenderContext(**{**ctx.model_dump(), **field})


def test_serving_is_the_same_however_often_it_is_rendered(ctx):
    plan = plan_for(load_preset("qwen3-32b"))
    arm = plan.waves[0].arms[1]
    assert serving(plan, arm, ctx) == serving(plan, arm, ctx)
