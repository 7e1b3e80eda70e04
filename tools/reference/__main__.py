"""Write every page, and the schema of report.json: `python -m tools.reference`.

It synthesizes the app for the alarms (about ten seconds).
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specdecode.analysis import Comparison
from specdecode.escape import json_text

from tools.reference import (
    alarms,
    bounds,
    cli,
    costs,
    decisions,
    engines,
    experiment_schema,
    metrics,
    native,
    printed_lines,
    s3_layout,
    settings,
    states,
)

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
SCHEMA = FOLDER.parents[1] / "assets" / "schemas" / "comparison.schema.json"
PARTS_OF_PAGES = {
    "../README.md": costs.replaced,
    "README.md": decisions.replaced,
    "reference/fields.md": experiment_schema.replaced,
    "reference/metrics.md": metrics.replaced,
}
"""Pages that are written by hand except for one part, from docs/."""


def pages(templates: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """File name -> text, given the templates by stack."""
    return {
        "bounds.md": bounds.render(),
        "cli.md": cli.render(),
        "costs.md": costs.render(),
        "engines.md": engines.render(),
        "native-conditions.md": native.render(),
        "printed-lines.md": printed_lines.render(),
        "s3-layout.md": s3_layout.render(),
        "states.md": states.render(),
        "alarms.md": alarms.render(templates),
        "../settings.md": settings.render(),
    }


def synthesize(folder: Path) -> dict[str, Any]:
    """Both templates with default settings."""
    import aws_cdk as cdk

    from app import compose
    from constructs_lib.settings.fields import Settings
    from constructs_lib.storage.bundle import build_bundle

    flags = json.loads((FOLDER.parents[1] / "cdk.json").read_text())["context"]
    app = cdk.App(outdir=str(folder), context=flags, builtin_cloud_formation_validation=False)
    compose(app, settings=Settings(), bundle=build_bundle())
    return {stack.stack_name: stack.template for stack in app.synth().stacks}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        templates = synthesize(Path(folder))
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages(templates).items():
        (FOLDER / name).write_text(text)
    for name, replaced in PARTS_OF_PAGES.items():
        path = FOLDER.parent / name
        path.write_text(replaced(path.read_text()))
    SCHEMA.write_text(json_text(Comparison.model_json_schema(), indent=1) + "\n")


if __name__ == "__main__":
    main()
