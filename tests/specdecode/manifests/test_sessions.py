"""What a pod may do in AWS is what its step of its run needs, whoever writes the code that runs there."""

import base64
import json
import re
from datetime import UTC, datetime

import botocore.session
import pytest
from specdecode import manifests, s3_keys
from specdecode.experiment import from_document, load_preset, preset_names
from specdecode.experiment.prompt_lengths import count_spec
from specdecode.experiment.prompt_sets import hub_sets
from specdecode.experiment.variants import ModelRef
from specdecode.manifests.bundle import LIMIT, Rights, session_policy

from tests.access.policies import allows
from tests.plans import PRICED, plan_for
from tests.pods import containers

BUCKET = "arn:aws:s3:::{}/"
OTHERS = (
    "runs/other/raw/base/count.jsonl",
    "runs/other/accuracy/base.json",
    "runs/other/plan.json",
    "compiled/0123456789abcdef/model.pt",
    "compiled/0123456789abcdef/COMPLETE.json",
    "models/other--model@main/model.safetensors",
    "imports/other/model.safetensors",
    "prompts/other@0.jsonl",
    "state/capacity.json",
)


def plans():
    for preset in preset_names():
        yield plan_for(load_preset(preset, overrides={"accuracy": True}), capacity=PRICED)
    hub = {"repo": "acme/own", "revision": "a" * 40, "file": "a.jsonl"}
    own = [{"set": f"own@{'b' * 64}", "categories": ["a"], "hub": hub}]
    yield plan_for(from_document({"extends": "qwen3-32b", "workload": {"cases": [], "prompts": own}}))


def rights_of(plan, ctx):
    """(what, rights, keys that it must be able to write)."""
    for model in plan.models_to_stage:
        yield "staging", manifests.staging_job(plan, model, ctx).rights, [f"{model.prefix}COMPLETE.json"]
    for given, hub in hub_sets(plan.experiment):
        yield "prompts", manifests.fetch_prompts_job(plan, given, hub, ctx).rights, [given.key]
    if spec := count_spec(plan.experiment, {}):
        yield "count", manifests.count_prompts_job(plan, spec, ctx).rights, [spec.key]
    for arm in plan.compiles_to_do:
        yield "compile", manifests.compile_job(plan, arm, ctx).rights, [f"compiled/{arm.fingerprint}/a/model.pt"]
    wave = plan.waves[0]
    yield "smoke", manifests.smoke(plan, wave, ctx).rights, []
    raw = [f"runs/{ctx.run_id}/{name}" for name in ("raw/base/count.jsonl", "conversations/chat.json", "servers.json")]
    yield "benchmark", manifests.benchmark(plan, wave, ctx).rights, raw
    yield "accuracy", manifests.accuracy_job(plan, wave, ctx).rights, [f"runs/{ctx.run_id}/accuracy/base.json"]


def may(rights, ctx, action, key):
    policy = json.loads(session_policy(rights, ctx))
    return allows(policy["Statement"], action=action, resource=BUCKET.format(ctx.bucket) + key, context={})


def test_the_benchmark_reads_the_prompts_of_its_run_and_cannot_change_them(ctx):
    plan = plan_for(load_preset("rehearsal"))
    rights = manifests.benchmark(plan, plan.waves[0], ctx).rights
    key = f"runs/{ctx.run_id}/{s3_keys.prompts_key('tickets', '0' * 64)}"
    assert may(rights, ctx, "s3:GetObject", key)
    assert not may(rights, ctx, "s3:PutObject", key)
    assert not may(rights, ctx, "s3:GetObject", s3_keys.prompts_key("tickets", "0" * 64))


def test_a_session_writes_its_own_and_nothing_of_others(ctx):
    seen = set()
    for plan in plans():
        for what, rights, own in rights_of(plan, ctx):
            seen.add(what)
            assert all(may(rights, ctx, "s3:PutObject", key) for key in own), what
            for key in OTHERS:
                assert not may(rights, ctx, "s3:PutObject", key), (what, key)
                assert not may(rights, ctx, "s3:GetObject", key), (what, key)
            for name in ("plan.json", "state.json", "experiment.yaml", "report.html", "diagnostics/x", "raw.json"):
                key = f"runs/{ctx.run_id}/{name}"
                assert not may(rights, ctx, "s3:PutObject", key), f"{what} could change what the pipeline goes by"
            assert may(rights, ctx, "s3:DeleteObject", own[0] if own else "x") is (what in {"staging", "compile"})
            assert not any(may(rights, ctx, "s3:DeleteObject", key) for key in OTHERS), what
    assert seen == {"staging", "prompts", "count", "compile", "smoke", "benchmark", "accuracy"}


def test_a_compile_reads_its_weights_and_the_bundle(ctx):
    plan = plan_for(load_preset("qwen3-32b"))
    arm = next(arm for arm in plan.compiles_to_do if plan.experiment.variant(arm.variant).speculation)
    rights = manifests.compile_job(plan, arm, ctx).rights
    for model in plan.models:
        assert may(rights, ctx, "s3:GetObject", f"{model.prefix}model.safetensors")
        assert not may(rights, ctx, "s3:PutObject", f"{model.prefix}model.safetensors")
    policy = json.loads(session_policy(rights, ctx))
    bundle = f"arn:aws:s3:::{ctx.bundle_uri.removeprefix('s3://')}"
    assert allows(policy["Statement"], action="s3:GetObject", resource=bundle, context={})
    assert not allows(policy["Statement"], action="s3:GetObject", resource=f"{bundle}x", context={})


def test_a_count_reads_what_it_compares_and_no_weights(ctx):
    (spec, plan) = next((found, each) for each in plans() if (found := count_spec(each.experiment, {})))
    rights = manifests.count_prompts_job(plan, spec, ctx).rights
    assert all(may(rights, ctx, "s3:GetObject", spec.model + name) for name in ("COMPLETE.json", "tokenizer.json"))
    assert not may(rights, ctx, "s3:GetObject", f"{spec.model}model.safetensors")


def test_the_hubs_token_is_for_gated_models_alone(ctx):
    plan = plan_for(load_preset("rehearsal"))
    for gated in (False, True):
        model = ModelRef(id="a/b", size_gib=1, gated=gated)
        policy = json.loads(session_policy(manifests.staging_job(plan, model, ctx).rights, ctx))
        asked = {"action": "secretsmanager:GetSecretValue", "resource": "arn:aws:secretsmanager:::x", "context": {}}
        assert allows(policy["Statement"], **asked) is gated


def _counting(sets, model, ctx):
    names = [{"set": f"{number:040}@{'0' * 64}", "categories": ["a"]} for number in range(sets)]
    plan = plan_for(from_document({"extends": "qwen3-32b", "workload": {"cases": [], "prompts": names}}))
    spec = count_spec(plan.experiment, {}).model_copy(update={"model": model.prefix})
    return manifests.count_prompts_job(plan, spec, ctx)


def test_sets_are_read_one_by_one_while_their_names_fit_into_a_session_policy(ctx):
    usual = ModelRef(id="Qwen/Qwen3-32B", revision="v" * 40, size_gib=1)
    for sets in (1, 2, 3, 4):
        reads = _counting(sets, usual, ctx).rights.reads
        assert len(reads) == 3 + sets and f"{s3_keys.PROMPTS}*" not in reads
    assert f"{s3_keys.PROMPTS}*" in _counting(9, usual, ctx).rights.reads


def test_the_longest_names_fit_into_a_session_policy(ctx):
    """63 characters of a bucket, 80 of a run, 128 + 100 of a model, 512 of an import prefix, 40 of a set."""
    long = ctx.model_copy(
        update={
            "bucket": "b" * 63,
            "run_id": "r" * 80,
            "bundle_uri": f"s3://cdk-hnb659fds-assets-{'1' * 30}/{'f' * 68}",
        }
    )
    imported = f"imports/{'i' * 503}/"
    model = ModelRef(
        id=f"{'o' * 60}/{'m' * 67}",
        revision="v" * 100,
        size_gib=1,
        gated=True,
        rescale_fp8=True,
        import_prefix=imported,
    )
    compiling = Rights(reads=("c" * 80, f"{model.prefix}*", f"{model.prefix}*"), writes=("c" * 80,))
    reading = plan_for(load_preset("rehearsal-forecast", overrides={"answers": "a" * 80}))
    jobs = [manifests.staging_job(reading, model, long), manifests.benchmark(reading, reading.waves[0], long)]
    jobs += [_counting(sets, model, long) for sets in (1, 2, 6, 7)]
    for rights in (compiling, *(each.rights for each in jobs)):
        policy = session_policy(rights, long, partition="aws-us-gov")
        assert len(policy) <= LIMIT, len(policy)
        assert policy.isascii() and "${" not in policy


def test_what_is_in_the_secret_is_what_the_sdk_reads_and_reads_again(ctx, tmp_path, monkeypatch):
    job = {"kind": "Job", "metadata": {"name": "r1-w0-benchmark", "labels": {"a": "b"}}}
    folder = tmp_path / "aws"
    folder.mkdir()

    def mounted(number):
        keys = {"AccessKeyId": f"ASIA{number}", "SecretAccessKey": "s", "SessionToken": "t"}
        secret = manifests.session_secret(job, {**keys, "Expiration": datetime(2100, 1, number, tzinfo=UTC)})
        for name, data in secret["data"].items():
            (folder / name).write_bytes(base64.b64decode(data))

    mounted(1)
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "aws/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    credentials = botocore.session.Session().get_credentials()
    assert (credentials.method, credentials.access_key, credentials.token) == ("custom-process", "ASIA1", "t")
    mounted(2)
    monkeypatch.setattr(credentials, "_time_fetcher", lambda: datetime(2099, 12, 31, 23, 50, tzinfo=UTC))
    assert credentials.get_frozen_credentials().access_key == "ASIA2"


@pytest.mark.parametrize("plan", plans(), ids=lambda plan: plan.experiment.name)
def test_a_session_is_mounted_whole_and_read_only_where_our_bundle_runs(plan, ctx):
    objects = manifests.all_objects(plan, ctx)
    secrets = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Secret"}
    for job in (obj for obj in objects if obj["kind"] == "Job"):
        template = job["spec"]["template"]
        (volume,) = [v for v in template["spec"]["volumes"] if v["name"] == "aws"]
        assert volume["secret"] == {"secretName": job["metadata"]["name"], "defaultMode": 0o440}
        assert job["metadata"]["name"] in secrets
        for name, container in containers(template).items():
            mounts = [mount for mount in container["volumeMounts"] if mount["name"] == "aws"]
            variables = {item["name"]: item.get("value") for item in container["env"]}
            ours = not re.search(r"-m specdecode\.pod\.compile", container["command"][2])  # that runs the engine
            assert bool(mounts) is ours is ("AWS_CONFIG_FILE" in variables), name
            for mount in mounts:
                assert mount == {"name": "aws", "mountPath": "/specdecode/aws", "readOnly": True}, (
                    "subPath is never renewed"
                )
