"""A FUSE mount whose process has died, as a container sees it.

A plain process cannot have one. Instead the `python3 -I -c`, with which our pods read a mount
(specdecode.manifests.verified_copy), opens no file below it, with the real error (awslabs/mountpoint-s3, issue 1089).
And the container cannot be made again, since containerd looks at the mount first.
"""

import shlex
import shutil
from pathlib import Path

from rehearsal.kubernetes.node.environment import CreateError
from rehearsal.kubernetes.objects import Json, uid_of

_OPEN = """\
import errno, io, sys
opened = io.open
def dead(file, *rest, **named):
    if str(file).startswith({below!r}):
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected", str(file))
    return opened(file, *rest, **named)
io.open = dead
exec(sys.argv.pop(1))
"""
_PYTHON = """\
#!/bin/sh
[ "$1 $2" = "-I -c" ] || exec {python} "$@"
shift 2
exec {python} -I -c {program} "$@"
"""


def claim_of(pod: Json, fault: str) -> str:
    """The claim of `pod` whose mount dies by the fault; "" if there is none."""
    claims = [
        v["persistentVolumeClaim"]["claimName"] for v in pod["spec"].get("volumes", ()) if "persistentVolumeClaim" in v
    ]
    return next((claim for claim in claims if fault and fault in claim), "")


def search_path(folder: Path, path: str, fault: str) -> str:
    """PATH with a `python3` first that cannot read below the mount, whose folder is `fault`."""
    folder.mkdir(exist_ok=True)
    python = shutil.which("python3", path=path) or "/usr/bin/python3"
    program = shlex.quote(_OPEN.format(below=f"{fault}/"))
    (folder / "python3").write_text(_PYTHON.format(python=shlex.quote(python), program=program))
    (folder / "python3").chmod(0o755)
    return f"{folder}:{path}"


def refuse(pod: Json, claim: str) -> CreateError:
    """Why the container cannot be made again."""
    mount = f"/var/lib/kubelet/pods/{uid_of(pod)}/volumes/kubernetes.io~csi/{claim}/mount"
    return CreateError(
        f"failed to generate container spec: failed to generate spec: failed to stat {shlex.quote(mount)}: "
        f"stat {mount}: transport endpoint is not connected"
    )
