"""What a pod looks at before a byte of weights is moved: a real shell on made-up devices, drivers and disks."""

import contextlib
import os
import socket
import subprocess
import tempfile

import pytest
from specdecode.experiment import engine_names, load_engine, load_preset
from specdecode.manifests import compile_job, serving
from specdecode.manifests.early import device_check, disk_check

from tests.plans import plan_for
from tests.pods import containers, engine_of, on_node

FORK, NATIVE = "0.9.1-sdk2.26.1", "0.29.0-sdk2.33.0"


def look(tmp_path, engine=FORK, *, here=8, driver="2.25.4", closed=False, claimed=8, disk_gib=1):
    """(exit code, what it says) of the check on a node with so many devices."""
    (tmp_path / "dev").mkdir()
    for number in range(here):
        path = tmp_path / "dev" / f"neuron{number}"
        path.touch()
        path.chmod(0o000 if closed and number == 3 else 0o666)
    if driver:
        (tmp_path / "version").write_text(driver + "\n")
    found = load_engine(engine)
    source = device_check(found, claimed) + disk_check(found, disk_gib)
    script = "set -eu\n" + on_node(source, tmp_path) + "echo went on\n"
    command = ["/bin/sh", "-c", script]
    if closed and os.geteuid() == 0:  # root may open all: look as somebody else
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == os.geteuid() and folder.is_relative_to(tempfile.gettempdir()):
                folder.chmod(folder.stat().st_mode | 0o055)
        command = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", *command]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("node", "code", "says"),
    [
        ({}, 0, "went on"),
        ({"here": 16}, 0, "went on"),
        ({"here": 7}, 75, "8 Neuron devices were claimed and 7 are here"),
        ({"here": 0}, 75, "and 0 are here"),
        ({"closed": True}, 75, "neuron3: the node image keeps it for others"),
        ({"driver": "2.29.0"}, 75, "the node has driver 2.29.0, Neuron runtime 2.28.23 takes 2.25 to below 2.29"),
        ({"driver": "2.24.7"}, 75, "driver 2.24.7, "),
        ({"driver": "2.28.0"}, 0, "went on"),
        ({"driver": None}, 0, "not compared"),
        ({"driver": "3.1"}, 0, "not compared"),
        ({"driver": "25.1"}, 0, "not compared"),
        ({"engine": NATIVE, "driver": "2.26.10"}, 75, "takes 2.27 and later"),
        ({"engine": NATIVE, "driver": "2.31.7"}, 0, "went on"),
        ({"disk_gib": 10_000_000}, 73, "10000000 GiB are needed"),
        ({"engine": "rehearsal-cpu", "here": 0, "driver": None, "disk_gib": 10_000_000}, 0, "went on"),
    ],
)
def test_one_line_before_anything_is_moved(tmp_path, node, code, says):
    ended, said = look(tmp_path, **node)
    assert (ended, says in said) == (code, True), said
    assert ("went on" in said) is (code == 0)
    assert (f"specdecode: error {code}: " in said) is (code != 0)


def test_a_device_that_only_opening_tells_is_closed_is_seen(tmp_path):
    """As in a container whose devices cgroup refuses it, where root passes `test -r`: here a socket does."""
    (tmp_path / "dev").mkdir()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as closed, contextlib.chdir(tmp_path):
        closed.bind("dev/neuron0")
        source = on_node(device_check(load_engine(NATIVE), 1), tmp_path)
        ended = subprocess.run(["/bin/sh", "-c", source], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 75 and "neuron0: the node image keeps it for others" in ended.stderr


def test_it_stands_before_the_first_byte_of_weights(ctx):
    plan = plan_for(load_preset("qwen3-32b"))
    arm = plan.waves[0].arms[1]
    fetch = containers(compile_job(plan, arm, ctx).job["spec"]["template"])["fetch"]
    script = fetch["command"][2]
    assert script.index("8 Neuron devices were claimed") < script.index("download_file") < script.index("pod.fetch")
    assert fetch["resources"]["claims"] == [{"name": "neuron"}], "or it would see none"
    script = engine_of(serving(plan, arm, ctx)[0])["command"][2]
    order = [
        "8 Neuron devices were claimed",
        "rm -rf local",
        "GiB are needed",
        "COMPLETE.json",
        "exec vllm serve",
    ]
    assert sorted(order, key=script.index) == order


def test_every_engine_that_opens_devices_says_which_drivers_it_takes():
    for engine in map(load_engine, engine_names()):
        assert (engine.runtime.driver_minors is not None) is engine.on_neuron, engine.name
