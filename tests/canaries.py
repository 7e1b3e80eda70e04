"""Strings that look like credentials and are none: put in where a secret can go, looked for in what comes out.

They are put together here, so that no file of the repository holds what a scanner for secrets would report.
"""

import base64
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

WORD = "C4nary"
HUGGING_FACE = "hf_" + WORD * 6
API_KEY = "sk-proj-" + WORD * 5
CANARIES: dict[str, str] = {
    "a Hugging Face token": HUGGING_FACE,
    "an AWS access key": "AKIA" + "C4NARYC4NARYC4NA",
    "an OpenAI or Anthropic key": API_KEY,
    "a GitHub token": "ghp_" + WORD * 6,
    "a Google API key": "AIza" + (WORD * 6)[:35],
    "a Slack token": "xoxb-" + WORD * 3,
    "an EKS token": "k8s-aws-v1." + WORD * 4,
    "a web token (JWT)": ".".join(["eyJ" + WORD * 3] * 2 + [WORD]),
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----" + WORD,
    "a URL with a password": "https://canary:" + WORD + "@host/",
    "an option that takes a secret": "--api-key=" + WORD,
}
"""Kind, as specdecode.experiment.credentials names it -> an example."""


def traces(secret: str, texts: Mapping[str, bytes]) -> list[str]:
    """Names of the texts that hold `secret`: as it is, in a URL, or in base64 wherever it begins."""
    forms = {secret.encode(), quote(secret, safe="").encode()}
    for offset in range(3):
        # The characters that a neighbouring byte decides are left out at both ends.
        encoded = base64.b64encode(b"\0" * offset + secret.encode())
        cut = encoded[-(-offset * 8 // 6) : len(encoded) - 4]
        forms |= {cut, cut.translate(bytes.maketrans(b"+/", b"-_"))}
    return [name for name, text in texts.items() if any(form in text for form in forms)]


def files(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, and every file in a zip of it."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found |= dict(_unpacked(str(path.relative_to(folder)), path.read_bytes()))
    return found


def _unpacked(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, data
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from ((f"{name}:{entry}", archive.read(entry)) for entry in archive.namelist())
