"""The settings that a deployment keeps: written to a file beside cdk.json, and held by the deployed stack.

`specdecode configure` writes the file. The synth, `preflight` and every command that looks for the deployment read it.
The guards compare: a deployment that would drop or change a setting of the deployed one is refused, unless the file
says which deployed value it replaces. Some settings cannot be changed in place at all.

Why it is so: ADR 199.
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from specdecode.assets import assets_dir
from specdecode.names import STACK
from specdecode.untrusted import WrongInput, in_words

FILE = "deployment.json"
GUARD = "SettingsGuard"
"""Name of the guard that holds them."""
DEPLOY = f"npx cdk deploy {STACK}"
CONFIGURE = ".venv/bin/specdecode configure"
NODES_FROM = ("cluster_name", "existing_cluster", "existing_node_group", "karpenter_node_role")
"""Settings that say where nodes come from. A cluster is known by its name. A deployment keeps them for good: a run that
takes a node while functions change, or before a rollback, would leave it at a place where nothing looks again.
"""
ENCRYPTED = "bucket_encryption"
"""With `kms` it stays too: the key that leaves the stack is that of all objects, and nothing decrypts with a key whose
deletion is scheduled (docs.aws.amazon.com/kms/latest/cryptographic-details/key-deletion.html).
"""
STAYS = "docs/settings.md#settings-that-cannot-change"
MOST_SHOWN = 80
"""Most characters of a value in a message."""


class BadFile(WrongInput):
    """The file cannot be read. The message says what to do."""


class KeptSettings(BaseModel):
    """The file. Values are texts, as `-c KEY=VALUE` takes them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: dict[str, str] = {}
    replaces: dict[str, str] = {}
    """Deployed values that these settings replace on purpose."""


class Loss(NamedTuple):
    """A setting of the deployed stack that other settings drop or change."""

    key: str
    deployed: str
    wanted: str | None


def checkout() -> Path | None:
    """The folder of cdk.json. None if this package was installed without it."""
    root = assets_dir().parent
    return root if (root / "cdk.json").is_file() else None


def read(root: Path | None) -> KeptSettings:
    """The file in `root`; without one, no settings. Raises BadFile."""
    if root is None or not ((root / FILE).exists() or (root / FILE).is_symlink()):
        return KeptSettings()
    try:
        return KeptSettings.model_validate_json((root / FILE).read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError, OSError):
        raise BadFile(f"{FILE} cannot be read: move it away, and `{CONFIGURE}` writes it anew") from None


def context(root: Path) -> dict[str, Any]:
    """The CDK's context without `-c`: ~/.cdk.json, then cdk.json in `root`, which wins."""
    files = [file for file in (Path.home() / ".cdk.json", root / "cdk.json") if file.is_file()]
    given = [json.loads(file.read_text(encoding="utf-8")).get("context", {}) for file in files]
    return {key: value for each in given for key, value in each.items()}


def write(root: Path, kept: KeptSettings) -> None:
    """Write the file, and all of it or nothing."""
    new = root / f".{FILE}"
    new.write_text(json.dumps(kept.model_dump(exclude_defaults=True), indent=2) + "\n", encoding="utf-8")
    new.replace(root / FILE)


def changed(
    deployed: Mapping[str, str], wanted: Mapping[str, str], replaces: Mapping[str, str] | None = None
) -> list[Loss]:
    """What `wanted` drops or changes of `deployed` without a word of it in `replaces`."""
    said = replaces or {}
    return [
        Loss(key, value, wanted.get(key))
        for key, value in sorted(deployed.items())
        if wanted.get(key) != value and said.get(key) != value
    ]


def fixed(deployed: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """Why `wanted` needs another deployment, and how to have one. None if it does not, or nothing is deployed."""
    keys = (*NODES_FROM, *({ENCRYPTED} & deployed.keys())) if deployed else ()  # a default, `s3`, is not among them
    lost = {key: deployed.get(key, "") for key in keys if deployed.get(key) != wanted.get(key)}
    if not lost:
        return None
    listed = "; ".join(f"{key}: {before or 'none'} -> {wanted.get(key, 'none')}" for key, before in lost.items())
    return (
        "Where nodes come from, and a KMS key of the bucket, are chosen when SpecDecodeStack is made and stay. To keep "
        f"what is deployed: {deploy_with(lost)}. To change it: `.venv/bin/specdecode destroy`, then deploy "
        f"({STAYS}: how to keep models and artifacts). Nothing was changed. They are: {listed}"
    )


def of_stack(cloudformation: Any) -> dict[str, str] | None:
    """The settings of the deployed stack, by its template. None if there is no stack, or one that is older than this.
    Not by its outputs: the CDK CLI prints those into logs, and an address is among the settings. Raises ClientError.
    """
    try:
        template = cloudformation.get_template(StackName=STACK)["TemplateBody"]
    except cloudformation.exceptions.ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return None
        raise
    resources = (json.loads(template) if isinstance(template, str) else template).get("Resources", {})
    found = [item["Properties"] for item in resources.values() if item["Type"] == f"Custom::SpecDecode{GUARD}"]
    return dict(found[0]["Settings"]) if found else None


def words(settings: Mapping[str, str]) -> str:
    """Settings as words of a command line. An empty value takes a setting back."""
    return " ".join(shlex.quote(f"{key}={value}") for key, value in settings.items())


def deploy_with(settings: Mapping[str, str]) -> str:
    """The lines that deploy with `settings` and keep all others."""
    return f"`{f'{CONFIGURE} {words(settings)}'.strip()}`, then `{DEPLOY}`"


def refused(problem: Mapping[str, Any]) -> str:
    """What pydantic has against a setting's value, in words."""
    return f"{in_words(problem)} (given: {problem['input']!r})"


def short(value: str) -> str:
    """A value for a message: a certificate has some thousand characters."""
    return value if len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]}…"


def refusal(deployed: Mapping[str, str], wanted: Mapping[str, str], replaces: Mapping[str, str]) -> str | None:
    """Why settings may not be deployed over `deployed`, and the lines that may. None if nothing is lost."""
    if reason := fixed(deployed, wanted):
        return reason
    lost = changed(deployed, wanted, replaces)
    if not lost:
        return None
    listed = "; ".join(f"{key}: {short(value)} -> {short(new or 'none')}" for key, value, new in lost)
    added = {key: value for key, value in sorted(wanted.items()) if key not in deployed}
    meant = {key: new or "" for key, _, new in lost}
    return (
        "This deployment would drop or change settings that the deployed one has. To keep them: "
        f"{deploy_with(added)}. If you mean it: {deploy_with(added | meant)}. Nothing was changed. They are: {listed}"
    )
