"""Before anything runs: `make rehearse`, its refusals, and the environment of children."""

import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from specdecode.experiment import load_preset

from rehearsal import imports, tools
from rehearsal.deployment import synth
from tests.patience import PATIENCE_S

OUTER = {"ENGINE", "EXPERIMENT", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON"}
"""Variables that `make test` gives to its children."""


def make(*arguments, path=None):
    environment = {name: value for name, value in os.environ.items() if name not in OUTER}
    environment |= {"PATH": str(path)} if path else {}
    return subprocess.run(
        [shutil.which("make"), *arguments],
        cwd=tools.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_an_unknown_experiment_names_the_presets_at_once():
    result = make("rehearse", "EXPERIMENT=nonsense")
    assert result.returncode == 2
    assert "'nonsense' is not a preset" in result.stderr
    assert "make rehearse EXPERIMENT=rehearsal" in result.stderr
    assert "make rehearse ENGINE=vllm" in result.stderr and "ENGINE=vllm" in make().stdout


def test_an_unknown_engine_names_the_two():
    result = make("rehearse", "ENGINE=nonsense")
    assert result.returncode == 2
    assert "cpu (the embedded one, the default) or vllm" in result.stderr


def test_engine_vllm_is_its_preset_and_installs_vllm_which_nothing_else_does():
    def steps(*arguments):
        return make("--dry-run", "rehearse", *arguments).stdout

    for arguments in (["ENGINE=vllm"], ["EXPERIMENT=rehearsal-vllm"]):
        assert "rehearsal.upstream.machine .rehearsal/vllm" in steps(*arguments)
    for arguments in ([], ["ENGINE=cpu"], ["EXPERIMENT=rehearsal-sweep"]):
        assert ".rehearsal/vllm" not in steps(*arguments)
    shown = 'echo "$$ENGINE $$EXPERIMENT"'
    for engine, preset in (("vllm", "rehearsal-vllm"), ("cpu", "rehearsal")):
        printed = make(f"--eval=shown: ; @{shown}", "shown", f"ENGINE={engine}").stdout
        assert printed.split() == [engine, preset]


def test_make_deploy_refuses_while_nobody_would_be_told():
    """A node that stays costs $36 an hour. So an address for alerts is needed, or the answer that none is wanted,
    kept or here.
    """
    refused = make("need-alerts")
    assert refused.returncode == 2
    assert "make deploy ALERT_EMAIL=you@example.com" in refused.stderr and "ACCEPT_NO_ALERTS=true" in refused.stderr
    assert make("need-alerts", "ALERT_EMAIL=me@example.com").returncode == 0
    assert make("need-alerts", "ACCEPT_NO_ALERTS=true").returncode == 0
    wrong = make("need-alerts", "ALERT_EMAIL=x'; touch injected; '")
    assert wrong.returncode == 2 and "alert_email" in wrong.stderr
    assert not (tools.ROOT / "injected").exists()
    steps = make("--dry-run", "deploy", "ALERT_EMAIL=me@example.com").stdout
    assert "need-alerts" not in steps and 'specdecode configure "alert_email=$ALERT_EMAIL"' in steps


def test_a_preset_of_vllm_without_vllm_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "IMAGES", dict.fromkeys(tools.IMAGES, tmp_path))
    with pytest.raises(tools.Unusable, match="make rehearse ENGINE=vllm"):
        imports.check(load_preset("rehearsal-vllm"))


@pytest.mark.parametrize("name", ["../experiments/rehearsal", "x'; touch /tmp/injected; '", "$(exit 9)", ""])
def test_odd_names_are_only_names(name):
    assert make("rehearse", f"EXPERIMENT={name}").returncode == 2


def test_an_experiment_for_other_hardware_is_refused_before_anything_starts():
    result = subprocess.run(
        [sys.executable, "-m", "rehearsal", "qwen3-32b"],
        cwd=tools.ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert result.returncode == 3
    assert "it needs Qwen/Qwen3-32B, Qwen/Qwen3-1.7B" in result.stderr
    assert "specdecode run qwen3-32b" in result.stderr


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with the programs of the Makefile's checks, but neither node nor Python 3.11."""
    for name in ("sh", "uname", "grep", "sed", "echo", "test"):
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("need-node", ["Node.js with npm is missing, or older than 20", "https://nodejs.org"]),
        ("need-python", ["Python 3.11 is missing", "apt install python3.11"]),
    ],
)
def test_what_is_missing_is_named_with_what_to_install(bare_path, target, says):
    result = make(target, path=bare_path)
    assert result.returncode == 2  # make's own; the recipe's is 3
    assert all(each in result.stderr for each in says)


def test_another_machine_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(tools.platform, "machine", lambda: "aarch64")
    with pytest.raises(tools.Unusable, match=r"needs Linux on x86_64; this is Linux on aarch64"):
        tools.check()


def test_help_is_the_default():
    assert make().stdout == make("help").stdout != ""


def test_a_checkout_whose_path_is_not_ascii_works_in_the_c_locale(tmp_path):
    """The build needs a locale that can write the path. Its result does not name the path."""
    assert "LC_ALL=C.UTF-8 .venv/bin/uv pip install" in make("--dry-run", "--always-make", ".venv/.installed").stdout
    (link,) = (tools.ROOT / ".venv/lib/python3.11/site-packages").glob("__editable__.specdecode-*.pth")
    checkout = tmp_path / "ä"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    shutil.copy(link, checkout / ".venv/lib/python3.11/site-packages")
    (checkout / "lambda/specdecode").mkdir(parents=True)
    (checkout / "lambda/specdecode/__init__.py").touch()
    command = [checkout / ".venv/bin/python", "-c", "import specdecode; print(ascii(specdecode.__file__))"]
    ran = subprocess.run(command, cwd=tmp_path, env={"LC_ALL": "C"}, capture_output=True, text=True)
    assert ran.stdout.strip() == ascii(str(checkout / "lambda/specdecode/__init__.py")), ran.stderr


def test_children_get_nothing_that_leads_to_a_real_account(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "123456789012")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    given = tools.environment(tools.aws_environment("http://127.0.0.1:1"))
    assert not {"AWS_PROFILE", "CDK_DEFAULT_ACCOUNT", "PYTHONDONTWRITEBYTECODE"} & given.keys()
    assert given["AWS_CONFIG_FILE"] == given["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert given["HTTPS_PROXY"] == "http://proxy:3128"
    assert "127.0.0.1" in given["NO_PROXY"]


def test_a_folder_that_cannot_be_written_is_refused_with_what_to_do(monkeypatch, tmp_path):
    blocked = tmp_path / "results"
    blocked.write_text("")
    monkeypatch.setattr(tools, "RESULTS", blocked)
    with pytest.raises(tools.Unusable, match=r"results\)\. A file is in the way of a folder: move it\."):
        tools.check()


def test_a_disk_without_room_is_refused_with_both_sizes(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "RUNS", tmp_path)
    monkeypatch.setattr(tools, "RUN_BYTES", shutil.disk_usage(tmp_path).free * 2)
    with pytest.raises(tools.Unusable, match=r"MiB free; a rehearsal needs \d+: make room there"):
        tools.check()


@pytest.mark.parametrize(("limits", "refused"), [((256, 256), True), ((256, 4096), False), ((4096, 4096), False)])
def test_too_few_open_files_are_raised_where_allowed_and_refused_where_not(monkeypatch, limits, refused):
    given = []
    monkeypatch.setattr(tools.resource, "getrlimit", lambda which: limits)
    monkeypatch.setattr(tools.resource, "setrlimit", lambda which, to: given.append(to))
    if refused:
        with pytest.raises(tools.Unusable, match=r"may open 256 files here, a rehearsal needs 1024: .*ulimit -Hn"):
            tools.check()
    else:
        tools.check()
    assert given == ([(1024, 4096)] if limits == (256, 4096) else [])


def test_ctrl_c_while_it_is_still_loading_is_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "rehearsal", "nonsense"],
        cwd=tools.ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if "pydantic" in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in rest


def test_the_app_is_named_to_the_cdk_so_that_a_shell_finds_it(tmp_path, monkeypatch):
    python = tmp_path / "a folder" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    started = []
    processes = SimpleNamespace(folder=tmp_path, start=lambda name, command, **_: started.append(command))
    synth(processes, {})
    app = started[0][started[0].index("--app") + 1]
    shown = subprocess.run(
        ["sh", "-c", f"echo() {{ printf '%s\n' \"$@\"; }}; echo {app}"], capture_output=True, text=True
    )
    assert shown.stdout.splitlines() == [str(python), "app.py", "--alone"]
