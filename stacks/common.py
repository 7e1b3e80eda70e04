"""What both stacks share."""

from aws_cdk import Environment, PermissionsBoundary, Stack, Tags
from constructs import Construct
from specdecode import __version__

from constructs_lib.settings.fields import Settings


class ProjectStack(Stack):
    """A stack in the settings' region. Its account is the settings', or that of the credentials.

    Its zones are the settings': to ask AWS for them, the synth would need credentials.
    """

    def __init__(self, scope: Construct, id: str, *, settings: Settings, description: str) -> None:
        self._zones = list(settings.zones)
        super().__init__(
            scope,
            id,
            env=Environment(region=settings.region, account=settings.account),
            description=f"{description} (specdecode {__version__})",
            permissions_boundary=PermissionsBoundary.from_arn(settings.permissions_boundary)
            if settings.permissions_boundary
            else None,
        )
        for key, value in {"project": "specdecode", **settings.tags}.items():
            Tags.of(self).add(key, value)

    @property
    def availability_zones(self) -> list[str]:
        """By id: the CDK would ask the account for others."""
        return self._zones
