"""docs/reference/s3-layout.md: every key of the artifact bucket, with who writes and who reads it."""

from collections.abc import Mapping

from specdecode import s3_keys
from specdecode.experiment import load_engine, load_preset
from specdecode.planning.artifacts import fingerprint
from specdecode.runs.state import PLAN

from constructs_lib.pipeline import pod_roles
from constructs_lib.storage import service_accounts
from tools.reference import page, table

RUN = "RUN"

FOLDERS = (
    ("imports/", "your own weights, which a model's `import_prefix` names"),
    ("asks/", "questions to held arms and their answers, for a day at most (`specdecode ask`)"),
    ("prompts/", "sets of prompts as `specdecode prompts add` stores them: `<set>@<SHA-256>.jsonl`"),
    ("models/", "staged weights: `<id with / as -->@<revision>/`"),
    ("compiled/", "compiled artifacts, by the hash of all that decides them"),
    ("runs/", "one folder a run; its name is the execution's"),
    ("state/", "who holds the node, and who waits; what a schedule has started"),
)

FILES = (
    (("experiment.yaml",), "Plan", "the experiment written out; `specdecode validate` takes it"),
    ((PLAN,), "Plan", "waves, what is missing, time and price as a range"),
    (("state.json",), "every step", "what a later step, the command line or the report must know"),
    (("prompts", "SET@SHA256.jsonl"), "Plan", "the sets of prompts that do not ship, as they were sent"),
    (("raw", "VARIANT", "CASE.jsonl"), "benchmark pod", "one line a request with the time of every chunk: the source"),
    (
        ("raw", "VARIANT", "CASE@CLIENT.jsonl"),
        "benchmark pod",
        "the same of a second client, where a level takes several",
    ),
    (("raw", "@clients", "JOB", "…"), "benchmark pod", "notes by which such clients begin and end a level together"),
    (("servers.json",), "benchmark pod", "how each server answers, and its own counters of speculation"),
    (
        ("conversations", "CASE.json"),
        "benchmark pod",
        "the first arm's answers, with which every arm is asked the next turn of a conversation",
    ),
    (
        ("used", "VARIANT.json"),
        "Report",
        "the settings with which the arm was compiled: its artifact's neuron_config.json",
    ),
    (
        ("used", "VARIANT.txt"),
        "Serve",
        "the words in which vLLM said the arm's configuration when it started. A resumed run keeps those of the runs "
        "before it in `used/RUN/`",
    ),
    (("accuracy", "VARIANT.json"), "accuracy pod", "lm-eval's own result; only with `accuracy: true`"),
    (("report.html",), "Report", "the answer, one page, opens offline"),
    (("report.md",), "Report", "the same for a merge request or a wiki"),
    (("report.csv",), "Report", "the same for a spreadsheet"),
    (("report.json",), "Report", "the same for a program; `specdecode report --schema` describes it"),
    (("llmperf", "VARIANT", "CASE", "*_summary.json"), "Report", "LLMPerf's summary"),
    (("llmperf", "VARIANT", "CASE", "*_individual_responses.json"), "Report", "LLMPerf's file of requests"),
    (("diagnostics", "diagnosis.json"), "Diagnose", "cause, error and detail; what `specdecode diagnose` prints"),
    (("diagnostics", "README.txt"), "Diagnose", "the same for a person"),
    (("diagnostics", "problems.txt"), "Diagnose", "what is wrong with each pod"),
    (("diagnostics", "events.txt"), "Diagnose", "Kubernetes' events, Karpenter's among them, by time"),
    (("diagnostics", "KINDs.json"), "Diagnose", "descriptions: pods, jobs, claims, nodes and their kin"),
    (("diagnostics", "ARM", "diagnosis.json"), "Compile, Serve", "the same, and all below, of an arm a sweep left out"),
    (("diagnostics", "logs", "POD.CONTAINER.log"), "Diagnose, Compile", "logs; `.previous.log` of what was restarted"),
)

COMPLETE = f"""A folder under `models/` and `compiled/` counts only with its `{s3_keys.COMPLETE}` (files, sizes,
SHA-256, for safetensors also that of the header), which is written last: what an interrupted step left is never taken
for whole. Who finishes a folder deletes what else lies there."""

RETENTION = """A run's folder expires after `run_retention_days` ([settings](../settings.md)), by default never. Why
who may do what: [security](../security.md#pods)."""


def render() -> str:
    preset = load_preset("qwen3-32b")
    arm = preset.variant("sd")
    examples = {
        "imports/": "imports/my-model/",
        "asks/": s3_keys.part_key(s3_keys.asks_prefix("<run id>") + "<question>/", 0),
        "prompts/": s3_keys.prompts_key("tickets", "<SHA-256>"),
        "models/": s3_keys.model_prefix(preset.target.id, preset.target.revision),
        "compiled/": s3_keys.compiled_prefix(fingerprint(preset, arm, load_engine(preset.engine))),
        "runs/": s3_keys.run_prefix("qwen3-32b-20261201-120000-1a2b"),
        "state/": s3_keys.CAPACITY_KEY,
    }
    return page(
        "Keys of the bucket",
        "`BucketName` of the stack's outputs. The code of pods and functions lies elsewhere: in the CDK's own bucket.",
        table(
            ("prefix", "what", "example", "pods that read it", "pods that write it"),
            [
                (
                    f"`{name}`",
                    what,
                    f"`{examples[name]}`",
                    _who({**pod_roles.READS, **service_accounts.READS}, name),
                    _who(pod_roles.WRITES, name),
                )
                for name, what in FOLDERS
            ],
        ),
        COMPLETE,
        "## A run's folder",
        table(
            ("key", "written by", "what it is"),
            [(f"`{s3_keys.run_key(RUN, *parts)}`", by, what) for parts, by, what in FILES],
        ),
        RETENTION,
    )


def _who(folders: Mapping[str, str | tuple[str, ...]], prefix: str) -> str:
    """Components whose entry is or holds `prefix`."""
    return ", ".join(name for name, given in folders.items() if prefix == given or prefix in tuple(given))
