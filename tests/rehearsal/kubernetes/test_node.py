"""Pods as processes: commands, environment, volumes, probes, restarts, ends."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rehearsal.kubernetes.__main__ import options
from rehearsal.kubernetes.double import Double as InProcess
from rehearsal.kubernetes.node.volumes import PodFolder, make_writable
from tests.patience import PATIENCE_S, until
from tests.rehearsal.kubernetes.conftest import OTHER_IMAGE, Double, start
from tests.rehearsal.kubernetes.manifests import SERVER, deployment, job, pod, service, wait_for


def run(double: Double, namespace: str, body: Any, phase: str = "Succeeded") -> Any:
    return double.run(body, phase, namespace=namespace)


def log(double: Double, namespace: str, name: str, query: str = "") -> str:
    answer = double.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log?{query}")[1]
    return answer if isinstance(answer, str) else str(answer)


def reason(double: Double, namespace: str, name: str, wanted: str) -> Any:
    """The pod, once its container waits for `wanted` or ended by it."""

    def test(found: Any) -> bool:
        states = [s["state"] for s in (found or {}).get("status", {}).get("containerStatuses", ())]
        return any(detail.get("reason") == wanted for state in states for detail in state.values())

    return double.wait(f"/api/v1/namespaces/{namespace}/pods/{name}", test)


def test_environment(double: Double, namespace: str) -> None:
    double.ok("POST", f"/api/v1/namespaces/{namespace}/services", service("my-web"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "aGlkZGVu"}}
    double.ok("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"one": "1", "two": "2"}}
    double.ok("POST", f"/api/v1/namespaces/{namespace}/configmaps", config)
    variables: list[Any] = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)-$(MISSING)-$$(A)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['specdecode/run']"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
    ]
    container = {"env": variables, "envFrom": [{"prefix": "C_", "configMapRef": {"name": "c"}}], "args": ["x", "$(A)"]}
    container["resources"] = {"requests": {"cpu": "1500m"}}
    script = "echo $B; echo $LABEL $SECRET [$MAYBE] $CPU $C_one$C_two; echo $1; "
    script += "echo $IP $MY_WEB_SERVICE_HOST $MY_WEB_SERVICE_PORT; env"
    done = run(double, namespace, pod("p", script, container=container, labels={"specdecode/run": "r1"}))
    lines = log(double, namespace, "p").splitlines()
    address = double.get(f"/api/v1/namespaces/{namespace}/services/my-web")["spec"]["clusterIP"]
    assert lines[:4] == ["a-$(MISSING)-$(A)", "r1 hidden [] 2 12", "a", f"{done['status']['podIP']} {address} 8000"]
    outside = {line.split("=")[0] for line in lines[4:]} & set(os.environ)
    assert outside <= {"PATH", "HOME", "HOSTNAME", "LANG", "PWD", "SHLVL", "OLDPWD", "_"}, (
        "nothing of the host leaks in"
    )


def test_volumes_below_the_working_directory(double: Double, namespace: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"spec.json": "{}", "b": "x"}}
    double.ok("POST", f"/api/v1/namespaces/{namespace}/configmaps", config)
    volumes = [
        {"name": "apps", "emptyDir": {}},
        {"name": "spec", "configMap": {"name": "c", "items": [{"key": "spec.json", "path": "in/spec.json"}]}},
        {"name": "tmp", "emptyDir": {}},
    ]
    mounts = [
        {"name": "spec", "mountPath": "/specdecode/spec"},
        {"name": "apps", "mountPath": "/specdecode"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    shared = {"workingDir": "/specdecode", "volumeMounts": mounts}
    command = ["/bin/sh", "-c", "echo made > file; echo $TMPDIR > $TMPDIR/t"]
    first = {"name": "first", "image": "i:1", "command": command, **shared}
    script = "cat file spec/in/spec.json; ls; cat $TMPDIR/t | wc -l"
    run(double, namespace, pod("p", script, container=shared, volumes=volumes, initContainers=[first]))
    assert log(double, namespace, "p").split() == ["made", "{}file", "spec", "1"]


def test_an_absolute_path_to_a_volume_is_refused_loudly(double: Double, namespace: str) -> None:
    container = {"volumeMounts": [{"name": "apps", "mountPath": "/specdecode"}]}
    body = pod("p", "cat /specdecode/file", container=container, volumes=[{"name": "apps", "emptyDir": {}}])
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    waiting = reason(double, namespace, "p", "CreateContainerConfigError")
    assert "path relative to the workingDir" in waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]


def test_what_is_missing_is_waited_for(double: Double, namespace: str) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/c"}]}
    body = pod("p", "cat c/k", container=mounts, volumes=[{"name": "v", "configMap": {"name": "late"}}])
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    double.wait(
        f"/api/v1/namespaces/{namespace}/events", lambda e: any(i["reason"] == "FailedMount" for i in e["items"])
    )
    assert 'configmap "late" not found' in double.events(namespace, "FailedMount")[0]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"k": "here"}}
    double.ok("POST", f"/api/v1/namespaces/{namespace}/configmaps", config)
    double.wait(f"/api/v1/namespaces/{namespace}/pods/p", lambda p: p["status"]["phase"] == "Succeeded")
    assert log(double, namespace, "p") == "here\n"


def test_exit_codes_and_retries_of_a_job(double: Double, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    double.ok("POST", jobs, job("fails", "exit 70", backoff_limit=1))
    failed = double.wait(f"{jobs}/fails", lambda j: j.get("status", {}).get("failed") == 2)
    failed = double.wait(f"{jobs}/fails", lambda j: len(j["status"].get("conditions", [])) == 2)
    assert {(c["type"], c["reason"]) for c in failed["status"]["conditions"]} == {
        ("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded"),
    }  # fmt: skip
    pods = double.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert [p["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for p in pods] == [70, 70]
    late = job("slow", "exec sleep 3600")
    late["spec"]["activeDeadlineSeconds"] = 1
    double.ok("POST", jobs, late)
    slow = double.wait(f"{jobs}/slow", lambda j: len(j.get("status", {}).get("conditions", [])) == 2)
    assert {each["reason"] for each in slow["status"]["conditions"]} == {"DeadlineExceeded"}


def test_the_last_lines_of_a_failed_container_are_in_its_status(double: Double, namespace: str) -> None:
    telling = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    failed = run(double, namespace, pod("p", "echo why; exit 1", container=telling), "Failed")
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "why"


def test_a_crash_loop_keeps_the_previous_log(double: Double, namespace: str) -> None:
    body = pod("p", "date +%N; exit 3")
    body["spec"]["restartPolicy"] = "Always"
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    reason(double, namespace, "p", "CrashLoopBackOff")
    found = double.wait(
        f"/api/v1/namespaces/{namespace}/pods/p", lambda p: p["status"]["containerStatuses"][0]["restartCount"] >= 1
    )
    assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
    double.wait(f"/api/v1/namespaces/{namespace}/pods/p/log?previous=true", lambda text: text is not None)
    assert log(double, namespace, "p", "previous=true") != log(double, namespace, "p")


def test_probes_and_the_service_address(double: Double, namespace: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    double.ok("POST", f"/api/v1/namespaces/{namespace}/services", service("web"))
    startup = {"httpGet": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 600}
    made = deployment("web", f"{wait_for(flag)}; {SERVER}", startupProbe=startup)
    double.ok("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", made)
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dweb"
    early = double.wait(path, lambda p: p["items"] and p["items"][0]["status"].get("phase") == "Running")["items"][0]
    assert early["status"]["containerStatuses"][0]["ready"] is False
    flag.touch()
    ready = double.wait(path, lambda p: p["items"][0]["status"]["containerStatuses"][0]["ready"])["items"][0]
    address = double.get(f"/api/v1/namespaces/{namespace}/services/web")["spec"]["clusterIP"]
    assert ready["status"]["podIP"] == address and address.startswith("127.")
    ask = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status)"
    script = f'python3 -c "{ask}" http://$WEB_SERVICE_HOST:$WEB_SERVICE_PORT/'
    run(double, namespace, pod("client", script))
    assert log(double, namespace, "client") == "200\n"
    endpoints = double.get(f"/api/v1/namespaces/{namespace}/endpoints/web")
    assert endpoints["subsets"][0]["addresses"][0]["ip"] == address


def test_liveness_restarts_and_exec_probes_work(double: Double, namespace: str) -> None:
    probe = {"exec": {"command": ["/bin/sh", "-c", "test ! -e bad"]}, "periodSeconds": 1, "failureThreshold": 1}
    body = pod("p", "sleep 1; touch bad; exec sleep 3600", container={"livenessProbe": probe, "workingDir": "/w"})
    body["spec"]["restartPolicy"] = "Always"
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    double.wait(
        f"/api/v1/namespaces/{namespace}/pods/p",
        lambda p: p["status"].get("containerStatuses", [{}])[0].get("restartCount"),
    )
    assert any("failed liveness probe" in message for message in double.events(namespace, "Killing"))


def test_termination_is_polite_then_not(double: Double, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    scripts = {
        "polite": ("trap 'exit 0' TERM; echo ready; sleep 3600 & wait", 3600),
        "stubborn": (f"export STRAY={namespace}; trap '' TERM; sleep 3600 & echo ready; while :; do sleep 1; done", 1),
    }
    for name, (script, grace) in scripts.items():
        run(double, namespace, pod(name, script, terminationGracePeriodSeconds=grace), "Running")
        until(lambda name=name: log(double, namespace, name) == "ready\n")
    assert marked(f"STRAY={namespace}")
    for name, least in (("polite", 0.0), ("stubborn", 0.9)):
        began = time.monotonic()
        ending = double.ok("DELETE", f"{path}/{name}")["metadata"]
        assert "deletionTimestamp" in ending and ending["deletionGracePeriodSeconds"] == scripts[name][1]
        double.wait(f"{path}/{name}", lambda p: p is None)
        assert time.monotonic() - began >= least
    assert gone(namespace), "the whole group ends"


def test_a_killed_container_can_look_out_of_memory(double: Double, namespace: str) -> None:
    run(double, namespace, pod("p", "exec sleep 3600"), "Running")
    double.control("kill", namespace=namespace, pod="p", reason="OOMKilled")
    state = reason(double, namespace, "p", "OOMKilled")["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 137


def test_images_are_pulled_unless_they_cannot_be(double: Double, namespace: str) -> None:
    double.control("faults", image_pull_error="private.example.com")
    for name, image, wanted in (
        ("malformed", "Not An Image", "InvalidImageName"),
        ("absent", "private.example.com/x:1", "ImagePullBackOff"),
    ):
        double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod(name, "true", container={"image": image}))
        reason(double, namespace, name, wanted)
    double.control("faults", reset=True)
    double.wait(f"/api/v1/namespaces/{namespace}/pods/absent", lambda p: p["status"]["phase"] == "Succeeded")


def test_an_image_brings_its_own_programs(double: Double, namespace: str) -> None:
    run(double, namespace, pod("own", "other-engine", container={"image": OTHER_IMAGE}))
    assert log(double, namespace, "own") == "other\n"
    run(double, namespace, pod("others", "other-engine"), phase="Failed")
    assert "not found" in log(double, namespace, "others")


def test_a_root_image_may_not_run_as_non_root(double: Double, namespace: str) -> None:
    body = pod("p", "true", container={"securityContext": {"runAsNonRoot": True}})
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    reason(double, namespace, "p", "CreateContainerConfigError")


def test_what_does_not_fit_stays_pending_with_the_reason(double: Double, namespace: str) -> None:
    double.ok(
        "POST",
        f"/api/v1/namespaces/{namespace}/pods",
        pod("big", "true", container={"resources": {"requests": {"cpu": "64"}}}),
    )
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod("elsewhere", "true", nodeSelector={"a": "b"}))
    for name, why in (
        ("big", "2 Insufficient cpu"),
        ("elsewhere", "2 node(s) didn't match Pod's node affinity/selector"),
    ):
        found = double.wait(
            f"/api/v1/namespaces/{namespace}/pods/{name}", lambda p: "conditions" in p.get("status", {})
        )
        assert f"0/2 nodes are available: {why}." in found["status"]["conditions"][0]["message"]


def test_logs_of_what_does_not_run(double: Double, namespace: str) -> None:
    run(double, namespace, pod("p", "true"))
    assert double.request("GET", f"/api/v1/namespaces/{namespace}/pods/p/log?previous=true")[0] == 400
    assert double.request("GET", f"/api/v1/namespaces/{namespace}/pods/p/log?container=other")[0] == 400
    run(double, namespace, pod("times", "echo x; sleep 0.1; echo y"))
    assert log(double, namespace, "times", "timestamps=true").split()[0].endswith("Z")
    assert log(double, namespace, "times", "limitBytes=3") == "x\ny"


def marked(marker: str) -> list[int]:
    """Processes with a text in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def stray_pod(marker: str) -> Any:
    """A pod that leaves its process group on purpose."""
    return pod("p", f"export STRAY={marker}; setsid sleep 600 & trap '' TERM; while :; do sleep 1; done")


def started(folder: Path, marker: str) -> Double:
    double = start(folder)
    double.namespace("apps")
    double.ok("POST", "/api/v1/namespaces/apps/pods", stray_pod(marker))
    double.wait("/api/v1/namespaces/apps/pods/p", lambda p: p.get("status", {}).get("phase") == "Running")
    until(lambda: marked(f"STRAY={marker}"))
    return double


def gone(marker: str) -> bool:
    return until(lambda: not marked(f"STRAY={marker}"))


PODS = "/api/v1/namespaces/default/pods"


def in_process(folder: Path, use: Callable[[Double], None]) -> None:
    """Use a double that runs in this process, so that its parts can be replaced."""

    async def serve() -> None:
        double = InProcess(options(["--state-dir", str(folder), "--image-path", str(folder / "none")]))
        try:
            await asyncio.to_thread(use, Double(cast("subprocess.Popen[str]", None), folder, await double.start()))
        finally:
            await double.stop()

    asyncio.run(serve())


def delete_one(client: Double) -> None:
    """Delete a pod that runs."""
    client.ok("POST", PODS, pod("p", "exec sleep 1000"))
    client.wait(f"{PODS}/p", lambda found: found["status"].get("phase") == "Running")
    client.ok("DELETE", f"{PODS}/p")


@pytest.mark.slow
def test_the_api_answers_while_a_pod_s_files_are_removed_and_the_pod_stays_until_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A disk may take minutes for it."""
    begun, let_go, in_time = threading.Event(), threading.Event(), list[bool]()
    real = PodFolder.remove

    def remove(folder: PodFolder) -> None:
        begun.set()
        in_time.append(let_go.wait(PATIENCE_S))
        real(folder)

    def use(client: Double) -> None:
        delete_one(client)
        try:
            assert begun.wait(PATIENCE_S)
            assert client.get("/api/v1/nodes")["items"]
            assert client.get(f"{PODS}/p")["metadata"]["deletionTimestamp"]
        finally:
            let_go.set()
        client.wait(f"{PODS}/p", lambda found: found is None)

    monkeypatch.setattr(PodFolder, "remove", remove)
    in_process(tmp_path, use)
    assert in_time and all(in_time)


@pytest.mark.slow
def test_a_pod_whose_files_cannot_be_removed_goes_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = list[PodFolder]()

    def remove(folder: PodFolder) -> None:
        tried.append(folder)
        raise OSError

    def use(client: Double) -> None:
        delete_one(client)
        client.wait(f"{PODS}/p", lambda found: found is None)

    monkeypatch.setattr(PodFolder, "remove", remove)
    in_process(tmp_path, use)
    assert tried


def test_a_folder_that_a_stray_process_removes_meanwhile_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "left").mkdir(mode=0o500)
    seen = [(str(tmp_path / "gone"), [], []), (str(tmp_path / "left"), [], [])]
    monkeypatch.setattr("os.walk", lambda _path: seen)
    make_writable(tmp_path)
    assert (tmp_path / "left").stat().st_mode & 0o700 == 0o700


def test_nothing_outlives_an_orderly_end(tmp_path: Path) -> None:
    marker = str(tmp_path)
    double = started(tmp_path, marker)
    double.stop()
    assert double.process.returncode == 0 and gone(marker)


def test_nothing_outlives_a_violent_end(tmp_path: Path) -> None:
    marker = str(tmp_path)
    double = started(tmp_path, marker)
    double.process.send_signal(signal.SIGKILL)
    double.process.wait()
    assert gone(marker)
