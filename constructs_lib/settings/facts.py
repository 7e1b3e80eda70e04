"""The facts of a deployment that `specdecode preflight` checks.

`python -m constructs_lib.settings.facts [KEY=VALUE...]`:

It prints them for the settings that `cdk deploy -c KEY=VALUE` would take, before there is a stack; after `--alone`,
without those that the deployment keeps. Exit status 2, with every problem, if they cannot work. It needs no CDK.
"""

import sys
from pathlib import Path

from specdecode.experiment import kept
from specdecode.experiment.deployment_facts import DeploymentFacts, ExistingCluster

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import STAGING_AMI
from constructs_lib.settings.reading import ALONE, SettingsError, settings_of, texts
from constructs_lib.settings.versions import ADDONS


def facts(settings: Settings) -> DeploymentFacts:
    """The facts in `settings` that can be checked against the account."""
    return DeploymentFacts(
        region=settings.region,
        account=settings.account,
        node=settings.node_type,
        nodes=settings.nodes,
        node_price=settings.node_price,
        cluster=settings.eks_cluster,
        existing=existing(settings),
        kubernetes=settings.kubernetes_version,
        supported=tuple(ADDONS),
        zones=settings.zones,
        node_zones=settings.node_zones,
        nat_gateways=settings.nat_gateways,
        vpc=settings.vpc_id,
        subnets=settings.subnet_ids,
        vpc_cidr=settings.vpc_cidr if settings.vpc_id else None,
        endpoints=settings.interface_endpoints,
        system_type=settings.system_instance_type,
        ami=settings.ami,
        staging_ami=STAGING_AMI,
        addons=dict(settings.addon_versions),
        reservation=settings.capacity_reservation_id,
        block_start=settings.capacity_start,
        block_end=settings.capacity_end,
        alert_email=settings.alert_email is not None,
        accept_no_alerts=settings.accept_no_alerts,
    )


def existing(settings: Settings) -> ExistingCluster | None:
    """The settings of a cluster that exists. None if the deployment makes its own."""
    if not settings.existing_cluster:
        return None
    return ExistingCluster(
        endpoint=str(settings.cluster_endpoint),
        security_group=str(settings.cluster_security_group),
        issuer=str(settings.cluster_oidc_issuer),
        node_role=settings.karpenter_node_role,
        node_group=settings.existing_node_group,
    )


def document(settings: Settings) -> str:
    """The facts as JSON, without fields that have no value."""
    return facts(settings).model_dump_json(exclude_none=True)


ROOT = Path(__file__).resolve().parents[2]


def settings_given(given: list[str]) -> Settings:
    """The settings of this checkout with `-c KEY=VALUE`. After ALONE: if the checkout kept those and no others.

    Raises SettingsError.
    """
    pairs = {key: value for key, _, value in (item.partition("=") for item in given if item != ALONE)}
    if ALONE in given:
        return settings_of(kept.context(ROOT), root=None, file=kept.KeptSettings(settings=pairs))[0]
    return settings_of(kept.context(ROOT) | pairs, root=ROOT)[0]


def main(given: list[str]) -> int:
    """Print the facts as JSON. Exit status 2 if the settings cannot work."""
    try:
        settings = settings_given(given)
        print(facts(settings).model_copy(update={"settings": texts(settings)}).model_dump_json(exclude_none=True))
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
