"""Options that many commands have."""

from typing import Annotated

import typer

STACK = "SpecDecodeStack"
Stack = Annotated[str, typer.Option(help="Name of the deployed stack.")]
Region = Annotated[
    str | None, typer.Option(help="AWS region; without it AWS_REGION, AWS_DEFAULT_REGION, then the profile's.")
]
Profile = Annotated[str | None, typer.Option(help="Profile of the AWS configuration; without it AWS_PROFILE.")]
