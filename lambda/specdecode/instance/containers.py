"""How the engine's containers run: by Docker or Podman, or as processes of a virtual environment.

All that a run starts carries its mark, a label or a variable: whoever ends it finds it, whatever has died before.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from specdecode import names
from specdecode.instance.engines import EngineRun

LABEL = "specdecode.instance"
MARK = "SPECDECODE_INSTANCE"
"""Variable of every process of a run."""
STOP_S = 60
"""Seconds between SIGTERM and SIGKILL, as in the pods."""
KEPT_BACK = ("AWS_", "HF_", "HUGGING", "PYTHON", "OPENAI_", "SPECDECODE_", "NEURON_RT_VISIBLE_CORES")
"""Beginnings of variables of the user that an engine does not get: credentials, and what changes its programs."""


class ToolFailed(Exception):
    """Docker or Podman refused a command. The message has its answer."""


@dataclass(frozen=True, kw_only=True)
class Containers:
    """The engine in containers of Docker or Podman, whose command line is `program`."""

    program: str
    mark: str

    @property
    def words(self) -> list[str]:
        """The tool as the watchdog takes it."""
        return [self.program]

    def command(self, run: EngineRun) -> list[str]:
        """Words of the command that runs the container in the foreground.

        Devices are handed over one by one (AWS Neuron documentation, containers FAQ: `--device`). The network is the
        machine's: nothing lies between the load and the server, which listens on a loopback address alone.
        """
        keep = ["--userns", "keep-id"] if self.is_podman else []
        return [
            *(self.program, "run", "--rm", "--init", "--name", self.named(run.name), "--label", f"{LABEL}={self.mark}"),
            *("--network", "host", "--user", f"{os.getuid()}:{os.getgid()}", *keep),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--shm-size", run.shm),
            *(part for number in run.devices for part in ("--device", f"/dev/neuron{number}")),
            *(part for mount in run.mounts for part in ("--volume", mount.volume)),
            *("--workdir", names.WORKDIR),
            *(part for name, value in run.env.items() for part in ("--env", f"{name}={value}")),
            *(part for name in run.secrets for part in ("--env", name)),
            *("--entrypoint", "/bin/sh", run.image, "-c", run.script),
        ]

    @property
    def is_podman(self) -> bool:
        return Path(self.program).name == "podman"

    def named(self, name: str) -> str:
        return f"specdecode-{self.mark}-{name}"

    def start(self, run: EngineRun, secrets: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        for path in run.inner.values():  # else the engine of containers makes it, as root
            (run.mounts[0].source / path).mkdir(parents=True)
        return _popen(self.command(run), os.environ | dict(secrets) | {MARK: self.mark}, log)

    def stop(self, name: str) -> None:
        self._said("stop", "-t", str(STOP_S), self.named(name))

    def left(self) -> list[str]:
        """Ids of the containers with the mark."""
        return self._said("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self.mark}").split()

    def remove(self, found: Sequence[str]) -> None:
        self._said("rm", "--force", *found)

    def has_image(self, image: str) -> bool:
        return self._asked("image", "inspect", image).returncode == 0

    def answers(self) -> str:
        """Empty if the program works here, else why it does not."""
        found = self._asked("version")
        return "" if found.returncode == 0 else (found.stderr or found.stdout).strip()

    def _asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *words], capture_output=True, text=True, check=False)

    def _said(self, *words: str) -> str:
        found = self._asked(*words)
        if found.returncode and "no such" not in found.stderr.lower():  # it has ended by itself meanwhile
            raise ToolFailed(f"{self.program} {' '.join(words)}: {found.stderr.strip()}")
        return found.stdout


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment of this machine with the engine in it. Mounts are links below the working directory."""

    folder: Path
    mark: str

    @property
    def words(self) -> list[str]:
        return ["--venv", str(self.folder)]

    def environment(self, run: EngineRun) -> dict[str, str]:
        """Variables of the process: the user's, but for what the engine must not see, and the pod's."""
        user = {key: value for key, value in os.environ.items() if not key.startswith(KEPT_BACK)}
        path = {"PATH": f"{self.folder / 'bin'}:{user.get('PATH', os.defpath)}"}
        return user | path | self.given(run) | {MARK: self.mark}

    def given(self, run: EngineRun) -> dict[str, str]:
        """Variables that the run sets: of the environment, of the arm's cores, of the pod."""
        scratch = next(str(mount.source) for mount in run.mounts if mount.target == "/tmp")  # noqa: S108
        cores = {"NEURON_RT_VISIBLE_CORES": run.cores} if run.cores else {}
        return {"VIRTUAL_ENV": str(self.folder), **cores, **run.env, "TMPDIR": scratch}

    def start(self, run: EngineRun, secrets: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        work = run.mounts[0].source
        for source, path in run.inner.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).symlink_to(source)
        return _popen(["/bin/sh", "-c", run.script], self.environment(run) | dict(secrets), log, cwd=work)

    def answers(self) -> str:
        lacking = [name for name in ("vllm", "python3") if not (self.folder / "bin" / name).exists()]
        return f"{self.folder}/bin has no {' and no '.join(lacking)}" if lacking else ""


Tool = Containers | Environment


def _popen(
    command: Sequence[str], env: Mapping[str, str], log: IO[bytes], cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C reaches us alone, and we end the rest in order."""
    return subprocess.Popen(
        list(command),
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes], *, patience_s: float = STOP_S) -> None:
    """SIGTERM to the process and its group, SIGKILL when its time is over."""
    for number, limit in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
            return


def sweep(tool: Tool) -> list[str]:
    """End all that carries the mark, and say what it was. All stand still first: no client sees its server end."""
    ended = []
    while found := [
        *(f"process {pid}" for pid in _signal(tool.mark, signal.SIGSTOP)),
        *(tool.left() if isinstance(tool, Containers) else ()),
    ]:
        ended += found
        if isinstance(tool, Containers) and (containers := tool.left()):
            tool.remove(containers)
        _signal(tool.mark, signal.SIGKILL)
        time.sleep(0.1)
    return list(dict.fromkeys(ended))


def _signal(mark: str, number: signal.Signals) -> list[int]:
    """Send it to every process with the mark. Returns their ids."""
    found = [*_marked(mark)]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return found


def _marked(mark: str) -> Iterator[int]:
    """Ids of the processes whose environment has the mark. Children inherit it, those that detach themselves too."""
    needle = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
                state = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
                if needle in (entry / "environ").read_bytes().split(b"\0") and state != "Z":
                    yield int(entry.name)


@contextmanager
def held(lock: Path, *, patience_s: float) -> Iterator[None]:
    """Hold a store: one process at a time can. Raises BlockingIOError if another one has it for so long."""
    until = time.monotonic() + patience_s
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.2)
        yield


def found_tool(*, mark: str, venv: Path | None, program: str | None) -> Tool | None:
    """The tool that the user chose, or Docker or else Podman. None if there is neither."""
    if venv is not None:
        return Environment(folder=venv.resolve(), mark=mark)
    chosen = program or next((name for name in ("docker", "podman") if shutil.which(name)), None)
    return Containers(program=chosen, mark=mark) if chosen else None
