"""docs/licences.md."""

from collections.abc import Sequence

from tools.reference import table
from tools.supply.inventory import POLICY, Part

MARK = "<!-- Written by `make lock`; edit tools/supply/policy.yaml instead. -->"


TEXT = """
specdecode is licensed under [Apache-2.0](../LICENSE); [NOTICE](../NOTICE) names what it contains of others.
Every package that is installed, with its version, its licence and what it is used for, is in the
bill of materials (CycloneDX): [sbom.cdx.json](sbom.cdx.json).

Allowed without a word: {allowed}. Others need a reason:

{exceptions}

Libraries bring what they bundle themselves (the CDK its node modules, NumPy its BLAS), with its licences in their own
packages. The container images and charts that a deployment draws are not here: [settings](settings.md) names them.

## What lies in this repository

{lying}
"""


def render(parts: Sequence[Part]) -> str:
    """The page of `parts`."""
    text = {entry["purl"]: f"[text](../{entry['notice']})" for entry in POLICY["vendored"]}
    lying = [(part.name, part.version, part.licence, part.used[0], text[part.purl]) for part in parts if part.files]
    body = TEXT.format(
        allowed=", ".join(POLICY["allowed"]),
        exceptions="\n".join(f"- **{name}**: {reason}." for name, reason in POLICY["exceptions"].items()),
        lying=table(("part", "version", "licence", "used", "licence text"), lying),
    )
    return f"# Licences\n\n{MARK}\n{body}"
