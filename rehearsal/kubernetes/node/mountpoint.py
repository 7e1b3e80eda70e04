"""The Mountpoint for S3 CSI driver: a Mountpoint pod beside the workload, then the bucket's prefix as a folder.

The folder is a copy made at mount time. It does not get objects that are written later, and it cannot be written to.
"""

import asyncio
import hashlib
from pathlib import Path

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.admission import AUDIENCE, ROLE_ANNOTATION
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.node.account_tokens import TokenIssuer
from rehearsal.kubernetes.node.volumes import MountError, make_writable
from rehearsal.kubernetes.objects import Json, annotations_of, condition, dig, is_true, name_of, namespace_of, uid_of
from rehearsal.kubernetes.software.addons import MOUNT_NAMESPACE
from rehearsal.kubernetes.software.installed import Installed
from rehearsal.kubernetes.software.workloads import NO_PROCESS

_DRIVER_ACCOUNT = ("kube-system", "s3-csi-driver-sa")
_OPTIONS = {
    "allow-delete", "allow-other", "allow-overwrite", "allow-root", "cache", "debug", "dir-mode", "file-mode",
    "force-path-style", "gid", "max-threads", "maximum-throughput-gbps", "metadata-ttl", "prefix", "read-only",
    "read-part-size", "region", "requester-pays", "sse", "sse-kms-key-id", "uid", "user-agent-prefix",
}  # fmt: skip
_REQUESTS = {"cpu": "mountpointContainerResourcesRequestsCpu", "memory": "mountpointContainerResourcesRequestsMemory"}


class Mountpoint:
    """Mounts PersistentVolumeClaims of driver `s3.csi.aws.com`."""

    def __init__(
        self, *, cluster: Cluster, installed: Installed, faults: Faults, tokens: TokenIssuer, aws_endpoint: str
    ) -> None:
        self._cluster = cluster
        self._installed = installed
        self._faults = faults
        self._tokens = tokens
        self._aws_endpoint = aws_endpoint
        self._users: dict[str, set[str]] = {}

    async def mount(self, pod: Json, volume: Json, folder: Path) -> None:
        """Raises MountError. The message says what to do, if that is known."""
        source = volume["persistentVolumeClaim"]
        persistent = self._volume(pod, source["claimName"])
        options = _options(persistent["spec"].get("mountOptions", ()))
        attributes = persistent["spec"]["csi"]["volumeAttributes"]
        if self._installed.csi_driver is None:
            raise MountError("driver name s3.csi.aws.com not found in the list of registered CSI drivers")
        self._check(pod, persistent, options)
        if "read-only" not in options and not source.get("readOnly"):
            raise MountError("the rehearsal mounts S3 read-only: add `read-only` to the volume's mountOptions")
        self._await_mountpoint_pod(pod, persistent)
        role, token, region = self._credentials(pod, attributes, options)
        if self._faults.mount_denied and self._faults.mount_denied in name_of(persistent):
            raise MountError(f"Failed to mount bucket {attributes['bucketName']}: AccessDenied (injected)")
        if not self._aws_endpoint:
            raise MountError("no AWS endpoint: S3 cannot be reached")
        from rehearsal.kubernetes.node import s3  # not at the top: importing boto3 takes longer than all other imports

        if folder.exists():
            make_writable(folder)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            await asyncio.to_thread(
                s3.fetch,
                endpoint=self._aws_endpoint,
                region=region,
                role_arn=role,
                token=token,
                bucket=attributes["bucketName"],
                prefix=options.get("prefix", ""),
                folder=folder,
            )
        except s3.PlaceError as problem:
            raise MountError(f"Failed to mount bucket {attributes['bucketName']}: {problem}") from None

    def _volume(self, pod: Json, claim_name: str) -> Json:
        claim = self._cluster.store.get(r.VOLUME_CLAIMS, namespace_of(pod), claim_name)
        if claim is None or dig(claim, "status", "phase") != "Bound":
            raise MountError(f'persistentvolumeclaim "{claim_name}" is not bound')
        return self._cluster.store.require(r.VOLUMES, "", claim["spec"]["volumeName"])

    def _check(self, pod: Json, persistent: Json, options: dict[str, str]) -> None:
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise MountError(f"Mountpoint does not know the mount option {unknown[0]!r}")
        context = pod["spec"].get("securityContext") or {}
        users = [
            dig(c, "securityContext", "runAsUser", default=context.get("runAsUser")) for c in pod["spec"]["containers"]
        ]
        if any(users) and "allow-other" not in options and not context.get("fsGroup"):
            raise MountError(
                "the pod does not run as root and the mountOptions lack `allow-other`: it could not read the files"
            )
        twins = [
            v for v in self._cluster.store.list(r.VOLUMES)
            if dig(v, "spec", "csi", "volumeHandle") == persistent["spec"]["csi"]["volumeHandle"]
        ]  # fmt: skip
        if len(twins) > 1:
            raise MountError(
                f"{len(twins)} PersistentVolumes have the volumeHandle {persistent['spec']['csi']['volumeHandle']}: "
                "it must be unique"
            )

    def _credentials(self, pod: Json, attributes: Json, options: dict[str, str]) -> tuple[str, str, str]:
        """(role, web identity token, region) by `authenticationSource`."""
        by_pod = attributes.get("authenticationSource", "driver") == "pod"
        region = attributes.get("stsRegion") or options.get("region")
        if not region:
            raise MountError(
                "failed to detect the STS region: set `stsRegion` in volumeAttributes or `region` in mountOptions "
                "(the metadata service is out of reach)"
            )
        if by_pod:
            namespace, account = namespace_of(pod), pod["spec"]["serviceAccountName"]
            found = self._cluster.store.get(r.SERVICE_ACCOUNTS, namespace, account)
            role = annotations_of(found).get(ROLE_ANNOTATION, "") if found else ""
        else:
            namespace, account = _DRIVER_ACCOUNT
            role = self._installed.csi_driver.role_arn if self._installed.csi_driver else ""
        if not role:
            whose = f"service account {namespace}/{account}" if by_pod else "the CSI driver's add-on"
            raise MountError(f"no credentials: {whose} has no IAM role")
        token = self._tokens.issue(
            namespace=namespace, account=account, pod=name_of(pod), audience=AUDIENCE, seconds=3600
        )
        return role, token, region

    # -- the Mountpoint pod: scheduled after the workload, on its node -------------------------------------------

    def _await_mountpoint_pod(self, pod: Json, persistent: Json) -> None:
        name = self._pod_name(pod, persistent)
        self._users.setdefault(name, set()).add(uid_of(pod))
        found = self._cluster.store.get(r.PODS, MOUNT_NAMESPACE, name)
        if found is None:
            self._cluster.create(r.PODS, _mountpoint_pod(name, pod["spec"]["nodeName"], persistent))
            raise MountError(f"waiting for Mountpoint Pod {MOUNT_NAMESPACE}/{name} to be running")
        if not is_true(found, "Ready"):
            scheduled = condition(found, "PodScheduled")
            why = scheduled.get("message", "") if scheduled and scheduled["status"] == "False" else "not running yet"
            raise MountError(f"Mountpoint Pod {MOUNT_NAMESPACE}/{name} is not running: {why}")

    def _pod_name(self, pod: Json, persistent: Json) -> str:
        """The Mountpoint pod. Pods of one node, volume, namespace, service account and fsGroup share it."""
        shared = (pod["spec"]["nodeName"], uid_of(persistent), namespace_of(pod), pod["spec"]["serviceAccountName"])
        group = str(dig(pod, "spec", "securityContext", "fsGroup", default=""))
        return "mp-" + hashlib.sha256("/".join((*shared, group)).encode()).hexdigest()[:10]

    def release(self, pod: Json) -> None:
        """The pod is done. Delete its Mountpoint pods that no other pod uses."""
        for name, users in tuple(self._users.items()):
            users.discard(uid_of(pod))
            if not users:
                del self._users[name]
                if self._cluster.store.get(r.PODS, MOUNT_NAMESPACE, name):
                    self._cluster.delete(r.PODS, MOUNT_NAMESPACE, name, {"gracePeriodSeconds": 0})


def _options(listed: list[str]) -> dict[str, str]:
    """`["region us-east-2", "prefix=models/", "read-only"]` as a map."""
    found = {}
    for option in listed:
        key, _, value = option.strip().removeprefix("--").replace("=", " ", 1).partition(" ")
        found[key] = value.strip()
    return found


def _mountpoint_pod(name: str, node: str, persistent: Json) -> Json:
    attributes = persistent["spec"]["csi"]["volumeAttributes"]
    requests = {kind: attributes[key] for kind, key in _REQUESTS.items() if key in attributes}
    for kind, value in requests.items():
        try:
            quantity.parse(value)
        except ValueError as problem:
            raise MountError(f"failed to parse quantity {value!r} of {_REQUESTS[kind]}: {problem}") from None
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    metadata = {"name": name, "namespace": MOUNT_NAMESPACE, "annotations": {NO_PROCESS: "true"}}
    container = {
        "name": "mountpoint",
        "image": "rehearsal/mountpoint:1",
        "command": ["/bin/aws-s3-csi-mounter"],
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {"s3.csi.aws.com/volume-name": name_of(persistent)[:63]}},
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "priorityClassName": "mount-s3-critical",
        },
    }
