"""The CDK app: context -> settings -> stacks."""

import sys

import aws_cdk as cdk

from constructs_lib.bundle import Bundle, BundleError, build_bundle
from constructs_lib.settings import Settings, SettingsError
from stacks.spec_decode import SpecDecodeStack
from stacks.trainium_cluster import TrainiumClusterStack


def compose(app: cdk.App, *, settings: Settings, bundle: Bundle) -> None:
    """Put both stacks into `app`."""
    platform = TrainiumClusterStack(app, "TrainiumClusterStack", bundle=bundle, settings=settings)
    SpecDecodeStack(
        app,
        "SpecDecodeStack",
        cluster=platform.cluster,
        vpc=platform.vpc,
        karpenter_role=platform.karpenter_role,
        bundle=bundle,
        settings=settings,
    )


def main() -> int:
    """Synthesize both stacks; 2 if the settings cannot work, 3 if the bundle cannot be built."""
    app = cdk.App()
    try:
        settings = Settings.from_context(app.node.get_all_context())
        bundle = build_bundle()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except BundleError as error:
        print(error, file=sys.stderr)
        return 3
    compose(app, settings=settings, bundle=bundle)
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
