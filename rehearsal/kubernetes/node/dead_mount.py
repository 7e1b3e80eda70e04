"""A FUSE mount whose process has died, as a container sees it.

A plain process cannot have one. Instead `cp`, with which our pods read a mount, fails with the real message
(awslabs/mountpoint-s3, issue 1089). And the container cannot be made again, since containerd looks at the mount first.
"""

import shlex
from pathlib import Path

from rehearsal.kubernetes.node.environment import CreateError
from rehearsal.kubernetes.objects import Json, uid_of

_CP = """\
#!/bin/sh
for from; do case $from in -*) ;; *) break ;; esac; done
echo "cp: error reading '$from': Transport endpoint is not connected" >&2
exit 1
"""


def claim_of(pod: Json, fault: str) -> str:
    """The claim of `pod` whose mount dies by the fault; "" if there is none."""
    claims = [
        v["persistentVolumeClaim"]["claimName"] for v in pod["spec"].get("volumes", ()) if "persistentVolumeClaim" in v
    ]
    return next((claim for claim in claims if fault and fault in claim), "")


def search_path(folder: Path, path: str) -> str:
    """PATH with the failing `cp` first."""
    folder.mkdir(exist_ok=True)
    (folder / "cp").write_text(_CP)
    (folder / "cp").chmod(0o755)
    return f"{folder}:{path}"


def refuse(pod: Json, claim: str) -> CreateError:
    """Why the container cannot be made again."""
    mount = f"/var/lib/kubelet/pods/{uid_of(pod)}/volumes/kubernetes.io~csi/{claim}/mount"
    return CreateError(
        f"failed to generate container spec: failed to generate spec: failed to stat {shlex.quote(mount)}: "
        f"stat {mount}: transport endpoint is not connected"
    )
