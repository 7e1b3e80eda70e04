"""Every function of the emulator that we replace, and why. The version is pinned; a test holds each patch.

Everything that is not listed here behaves as ministack ships it.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.cloud import (
    condition_keys,
    custom_resources,
    eks,
    functions,
    mail,
    metric_throttling,
    node_groups,
    resource_types,
    stacks,
    workflows,
)
from rehearsal.cloud.kubernetes import Kubernetes


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A change of the emulator: `module.attribute` becomes `replace(original)`."""

    module: str
    attribute: str
    why: str
    replace: Callable[[Any], Any]

    def apply(self) -> None:
        """Raises AttributeError if the emulator no longer has the attribute."""
        module = importlib.import_module(self.module)
        setattr(module, self.attribute, self.replace(getattr(module, self.attribute)))


def patches(*, kubernetes: Kubernetes, runtime: Path) -> tuple[Patch, ...]:
    """All patches, in the order in which they are applied.

    `runtime` is the folder of packages that Python functions see besides their own zip.
    """
    return (
        *_http_patches(),
        *_function_patches(runtime),
        *_state_machine_patches(),
        *_metric_patches(runtime),
        *_mail_patches(runtime),
        *_access_patches(),
        *_cluster_patches(kubernetes),
        *_deployment_patches(kubernetes),
    )


def _http_patches() -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.app",
            attribute="pin_request_origin",
            why="it serves plain HTTP on loopback; bucket policies that demand TLS would deny everything",
            replace=lambda pin: lambda source, _secure: pin(source, True),
        ),
        Patch(
            module="hypercorn.asyncio.run",
            attribute="TCPServer",
            why="it keeps what a client closed for the idle time, 75 s: a busy rehearsal ran out of files",
            replace=_closing_at_once,
        ),
    )


def _closing_at_once(server: Any) -> Any:
    class ClosingAtOnce(server):  # type: ignore[misc]
        async def _read_data(self) -> None:
            await super()._read_data()
            await self.idle_task.stop()

    return ClosingAtOnce


def _function_patches(runtime: Path) -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.services.lambda_svc",
            attribute="_execute_function_warm",
            why="every exception of a handler is named Runtime.HandlerError, so Retry and Catch never match",
            replace=functions.naming_errors,
        ),
        Patch(
            module="ministack.core.lambda_runtime",
            attribute="_PYTHON_WORKER_SCRIPT",
            why="functions see the emulator's packages, so none could be found to lack; an exception ends the process",
            replace=lambda script: functions.with_runtime(script, runtime),
        ),
        Patch(
            module="ministack.core.lambda_runtime",
            attribute="zipfile",
            why="every worker extracts the one zip of all our functions again: slow to start, slow to remove",
            replace=lambda original: functions.extracting_once(original, runtime.parent / "lambda-code"),
        ),
    )


def _state_machine_patches() -> tuple[Patch, ...]:
    redriving = workflows.Redriving()
    return (
        Patch(
            module="ministack.services.stepfunctions",
            attribute="_run_sub_machine",
            why="states inside a Map leave no event, and go on after the execution was stopped",
            replace=workflows.announcing,
        ),
        Patch(
            module="ministack.services.stepfunctions",
            attribute="_fail_execution",
            why="ending those states must not turn a stopped execution into a failed one",
            replace=workflows.only_while_running,
        ),
        Patch(
            module="ministack.services.stepfunctions",
            attribute="_add_event",
            why="a history lacks TaskStarted, so that no budget of events could be measured",
            replace=workflows.starting,
        ),
        Patch(
            module="ministack.services.stepfunctions",
            attribute="_execute_task",
            why="retries know neither jitter nor a longest delay, and go on after the execution was stopped",
            replace=workflows.retrying,
        ),
        Patch(
            module="ministack.services.stepfunctions",
            attribute="_execute_task",
            why="the variables of an execution are gone with it, and one that is redriven needs them",
            replace=redriving.remembering,
        ),
        Patch(
            module="ministack.services.stepfunctions",
            attribute="_describe_execution",
            why="it does not say how often an execution was redriven",
            replace=redriving.counting,
        ),
        Patch(
            module="ministack.services.stepfunctions",
            attribute="handle_request",
            why="it has no RedriveExecution",
            replace=redriving.answering,
        ),
    )


def _metric_patches(runtime: Path) -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.services.cloudwatch",
            attribute="_put_metric_data",
            why="it never throttles, so no test could see what happens to metrics that it refuses",
            replace=lambda put: metric_throttling.throttling(put, runtime.parent / metric_throttling.SWITCH),
        ),
    )


def _mail_patches(runtime: Path) -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.services.sns",
            attribute="handle_request",
            why="a mail address counts as confirmed at once, so nobody could forget to open the link",
            replace=lambda handle: mail.confirming(handle, runtime.parent),
        ),
    )


def _access_patches() -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.core.iam_actions",
            attribute="request_tag_context",
            why="condition keys that confine roles are missing: cloudwatch:namespace, instances' tags, iam:PolicyARN",
            replace=lambda read: condition_keys.with_instances(condition_keys.with_metric_namespace(read)),
        ),
        Patch(
            module="ministack.core.iam_actions",
            attribute="extract_resource_arn",
            why="RunInstances is decided for the image alone, so policies about instances would have no effect",
            replace=condition_keys.launched_instance,
        ),
        Patch(
            module="ministack.services.sts",
            attribute="_web_identity_principal",
            why="EKS tokens have their audience as a list, which meets no condition on the audience",
            replace=condition_keys.one_audience,
        ),
        Patch(
            module="ministack.core.iam_actions",
            attribute="extract_resource_arn",
            why="requests on a node group are decided for its cluster",
            replace=node_groups.node_group_arn,
        ),
    )


def _cluster_patches(kubernetes: Kubernetes) -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.services.eks",
            attribute="_create_cluster",
            why="without Docker the endpoint is a port at which nothing listens, and the CA is empty",
            replace=lambda create: eks.endpoint_of_double(kubernetes, create),
        ),
        Patch(
            module="ministack.services.eks",
            attribute="handle_request",
            why="a node group cannot be changed, and it has neither instances nor nodes",
            replace=lambda handle: node_groups.scaling(kubernetes, handle),
        ),
    )


def _deployment_patches(kubernetes: Kubernetes) -> tuple[Patch, ...]:
    return (
        Patch(
            module="ministack.services.cloudformation",
            attribute="handle_request",
            why="it answers at once, so the CDK CLI, which asks every 5 s, mostly waits",
            replace=stacks.settling,
        ),
        Patch(
            module="ministack.services.cloudformation.custom_resource",
            attribute="invoke_custom_resource",
            why="the Lambdas of these resources need kubectl, helm or parts of the JavaScript SDK, which are not here",
            replace=lambda invoke: custom_resources.handling(kubernetes, invoke),
        ),
        Patch(
            module="ministack.services.cloudformation.provisioners",
            attribute="_RESOURCE_HANDLERS",
            why="it refuses CloudFormation types of our stacks that it does not know",
            replace=lambda known: resource_types.extend(known, kubernetes),
        ),
    )
