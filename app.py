"""The CDK app: context -> settings -> stacks. `cdk` runs it. `python app.py` only synthesizes; after `--alone` without
the settings that the checkout keeps.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import constructs_lib  # noqa: F401 - says why it comes first

# isort: split
import aws_cdk as cdk
from specdecode.names import CLUSTER_STACK, STACK

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import ALONE, SettingsError, settings_of
from constructs_lib.storage.bundle import Bundle, BundleError, build_bundle
from stacks.scheduling import scheduled_run
from stacks.spec_decode import SpecDecodeStack
from stacks.trainium_cluster import TrainiumClusterStack

ROOT = Path(__file__).resolve().parent


def compose(app: cdk.App, *, settings: Settings, bundle: Bundle, replaces: Mapping[str, str] | None = None) -> None:
    """Put both stacks into `app`; for a cluster that exists, SpecDecodeStack alone. `replaces`: deployed settings that
    may be lost.

    Raises SettingsError if the settings start a run that may not start.
    """
    scheduled = scheduled_run(settings)
    platform = None
    if not settings.existing_cluster:
        platform = TrainiumClusterStack(app, CLUSTER_STACK, bundle=bundle, settings=settings, replaces=replaces)
    SpecDecodeStack(
        app,
        STACK,
        platform=platform,
        bundle=bundle,
        settings=settings,
        scheduled=scheduled,
        replaces=replaces,
    )


def context_of_cdk_json() -> dict[str, Any]:
    """The feature flags that the CDK CLI reads from cdk.json. Without them other templates come out."""
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return context


def main(given: list[str]) -> int:
    """Synthesize both stacks. Exit status 2 if the settings cannot work, 3 if the bundle cannot be built."""
    of_cli = os.environ.get("CDK_OUTDIR") or None
    # The CLI's context has precedence over the one that is given here.
    app = cdk.App(context=context_of_cdk_json(), outdir=of_cli or "cdk.out")
    try:
        settings, replaces = settings_of(app.node.get_all_context(), root=None if ALONE in given else ROOT)
        compose(app, settings=settings, bundle=build_bundle(), replaces=replaces)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except BundleError as error:
        print(error, file=sys.stderr)
        return 3
    app.synth()
    if not of_cli:
        print("The templates are in cdk.out; `npx cdk deploy SpecDecodeStack` deploys them.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
