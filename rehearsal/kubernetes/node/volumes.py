"""Volumes as folders. A container's mounts are a tree of links that stands for its file system."""

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.admission import TOKEN_MOUNT
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.node import environment
from rehearsal.kubernetes.node.account_tokens import TokenIssuer
from rehearsal.kubernetes.objects import Json, name_of, namespace_of

_OUTSIDE = ("/tmp", "/dev/shm", TOKEN_MOUNT)  # noqa: S108


class MountError(Exception):
    """A volume cannot be set up now. The kubelet writes FailedMount and tries again."""


class PodFolder:
    """The files of one pod: `volumes/<name>`, and `root/<container>` for each container's tree of links."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def volume(self, name: str) -> Path:
        return self.path / "volumes" / name

    def root(self, container: str) -> Path:
        return self.path / "root" / container

    def log(self, container: str, restart: int) -> Path:
        return self.path / "logs" / container / f"{restart}.log"

    def remove(self) -> None:
        for folder in ("volumes", "root"):
            make_writable(self.path / folder)
            shutil.rmtree(self.path / folder, ignore_errors=True)

    def forget(self) -> None:
        self.remove()
        shutil.rmtree(self.path, ignore_errors=True)


def make_writable(path: Path) -> None:
    """Make everything below `path` writable, so that it can be removed. A stray process may remove some meanwhile."""
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(FileNotFoundError):
            Path(folder).chmod(0o755)


def write_files(folder: Path, files: dict[str, bytes], mode: int) -> None:
    """Replace each file in one step, as the kubelet does. A file that is mounted alone keeps its old content."""
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"..{target.name}.new")
        new.write_bytes(data)
        new.chmod(mode)
        new.replace(target)


def set_up(store: Store, tokens: TokenIssuer, pod: Json, volume: Json, folder: Path) -> None:
    """Fill `folder` for every kind of volume but a PersistentVolumeClaim. Raises MountError."""
    folder.mkdir(parents=True, exist_ok=True)
    if "emptyDir" in volume:
        return
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            source = {**volume[kind], "name": volume[kind].get("name", volume[kind].get("secretName"))}
            write_files(folder, _files(store, tokens, pod, kind, source), source.get("defaultMode", 0o644))
    for source in volume.get("projected", {}).get("sources", ()):
        for kind, body in source.items():
            write_files(folder, _files(store, tokens, pod, kind, body), volume["projected"]["defaultMode"])


def refresh(store: Store, pod: Json, volume: Json, folder: Path) -> None:
    """Copy changes of a ConfigMap or Secret into its volume. If the object is gone, the volume stays as it was."""
    for kind in ("configMap", "secret"):
        if kind not in volume:
            continue
        source = {**volume[kind], "name": volume[kind].get("name", volume[kind].get("secretName"))}
        with contextlib.suppress(MountError):
            found = _files(store, None, pod, kind, source)
            changed = {name: data for name, data in found.items() if _read(folder / name) != data}
            write_files(folder, changed, source.get("defaultMode", 0o644))


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _files(store: Store, tokens: TokenIssuer | None, pod: Json, kind: str, source: Json) -> dict[str, bytes]:
    if kind == "serviceAccountToken":
        assert tokens is not None
        token = tokens.issue(
            namespace=namespace_of(pod),
            account=pod["spec"]["serviceAccountName"],
            pod=name_of(pod),
            audience=source.get("audience", "https://kubernetes.default.svc"),
            seconds=source["expirationSeconds"],
        )
        return {source["path"]: token.encode()}
    if kind == "downwardAPI":
        return {
            item["path"]: environment.field(pod, item["fieldRef"]["fieldPath"]).encode() for item in source["items"]
        }
    resource = r.CONFIG_MAPS if kind == "configMap" else r.SECRETS
    found = store.get(resource, namespace_of(pod), source["name"])
    if found is None:
        if source.get("optional"):
            return {}
        raise MountError(f'{kind.lower()} "{source["name"]}" not found')
    data = environment.data_of(found)
    if not source.get("items"):
        return data
    missing = [item["key"] for item in source["items"] if item["key"] not in data]
    if missing and not source.get("optional"):
        raise MountError(f"{kind.lower()} references non-existent config key: {', '.join(missing)}")
    return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}


def build_root(folder: PodFolder, container: Json) -> Path:
    """Make the container's tree of links. Returns the folder that stands for its working directory. Raises
    ConfigError.
    """
    root = folder.root(container["name"])
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    for mount in sorted(container.get("volumeMounts", ()), key=lambda m: m["mountPath"].count("/")):
        source = folder.volume(mount["name"])
        if mount.get("subPath"):
            source = source / mount["subPath"]
            if not source.exists():
                source.mkdir(parents=True)
        _link(root, mount["mountPath"], source)
    working = root / str(container.get("workingDir", "/")).lstrip("/")
    working.mkdir(parents=True, exist_ok=True)
    return working


def _link(root: Path, mount_path: str, source: Path) -> None:
    """Put a volume at its mount path: a link to the volume's folder.

    If the path is inside another volume, the folder itself moves there, and `source` becomes a link to it. So a program
    that does not follow links finds the files there, as on a real node.
    """
    place = root / mount_path.strip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists() and place.resolve() == source.resolve():
        return
    if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
        place.rmdir()
    if place.exists():
        raise environment.ConfigError(f"cannot mount at {mount_path}: the volume around it has files there")
    if source.is_file():  # a mount by subPath keeps the old file, even if another gets its name
        place.hardlink_to(source)
        return
    nested = place.parent.resolve() != place.parent.absolute()
    if nested and not source.is_symlink():
        real = place.parent.resolve() / place.name
        mode = source.stat().st_mode
        source.chmod(0o755)
        source.rename(real)
        real.chmod(mode)
        source.symlink_to(real, target_is_directory=True)
    else:
        place.symlink_to(source.resolve(), target_is_directory=True)


def check_paths(container: Json, env: dict[str, str]) -> None:
    """Raise ConfigError if a command or variable names a mount by its absolute path. A local process has no file system
    of its own, so only paths relative to the working directory lead to the volumes.
    """
    mounts = [m["mountPath"].rstrip("/") for m in container.get("volumeMounts", ())]
    mounts = [path for path in mounts if path and path not in _OUTSIDE]
    if not mounts:
        return
    pattern = re.compile(r"(?<![\w.$})/-])(" + "|".join(map(re.escape, mounts)) + r")(?![\w.-])")
    own = {
        v["name"]: v.get("value", "") for v in container.get("env", ()) if v["name"] != "AWS_WEB_IDENTITY_TOKEN_FILE"
    }
    texts = [*container.get("command", ()), *container.get("args", ()), *own.values()]
    for text in texts:
        if found := pattern.search(text):
            raise environment.ConfigError(
                f"the rehearsal's node runs containers as local processes and has no absolute path {found[1]} "
                f"(in {json.dumps(text[:80])}); use a path relative to the workingDir"
            )


def local_variables(folder: PodFolder, container: Json) -> dict[str, str]:
    """Variables whose paths must be local: the folder of temporary files, the path of the IAM token."""
    found: dict[str, str] = {}
    for mount in container.get("volumeMounts", ()):
        if mount["mountPath"].rstrip("/") == "/tmp":  # noqa: S108
            found["TMPDIR"] = str(folder.volume(mount["name"]))
        if mount["mountPath"] == TOKEN_MOUNT:
            found["AWS_WEB_IDENTITY_TOKEN_FILE"] = str(folder.volume(mount["name"]) / "token")
    return found
