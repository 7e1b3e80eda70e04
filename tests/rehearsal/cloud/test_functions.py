import json

import pytest

from rehearsal.cloud.functions import with_runtime


def test_exceptions_keep_their_class_name(cloud):
    cloud.function("raises", "class NotReady(Exception): pass\ndef handler(e, c): raise NotReady('not: yet')\n")
    answer = cloud.client("lambda").invoke(FunctionName="raises", Payload=b"{}")
    assert answer["FunctionError"]
    body = json.loads(answer["Payload"].read())
    assert (body["errorType"], body["errorMessage"]) == ("NotReady", "not: yet")
    events = cloud.client("logs").filter_log_events(logGroupName="/aws/lambda/raises")["events"]
    assert "NotReady: not: yet" in "\n".join(event["message"] for event in events)


def test_an_exception_does_not_end_the_process(cloud):
    """Lambda's runtime goes on with the next event. A step that waits ends each look with an exception."""
    cloud.function("counts-on", "seen = []\ndef handler(e, c):\n    seen.append(1)\n    raise ValueError(len(seen))\n")
    client = cloud.client("lambda")
    answers = [client.invoke(FunctionName="counts-on", Payload=b"{}")["Payload"].read() for _ in range(3)]
    assert [json.loads(answer)["errorMessage"] for answer in answers] == ["1", "2", "3"]


def test_a_worker_that_reports_exceptions_otherwise_is_noticed(tmp_path):
    with pytest.raises(ValueError, match="reports exceptions otherwise"):
        with_runtime("def run(): pass", tmp_path)


def test_functions_see_the_sdk_and_python_3_11_but_not_the_emulators_packages(cloud):
    source = """
import importlib.util as u, sys
def handler(e, c):
    return {n: u.find_spec(n) is not None for n in ("boto3", "botocore", "hypercorn", "ministack", "yaml")} | {
        "version": list(sys.version_info[:2])}
"""
    cloud.function("looks", source)
    answer = json.loads(cloud.client("lambda").invoke(FunctionName="looks", Payload=b"{}")["Payload"].read())
    assert answer == {
        "boto3": True, "botocore": True, "hypercorn": False, "ministack": False, "yaml": False, "version": [3, 11],
    }  # fmt: skip


def test_functions_log_to_their_group_and_do_not_see_the_cluster_administrators_token(cloud):
    code = "import os\ndef handler(e, c): print('hello', [k for k in os.environ if k.startswith('KUBE')])\n"
    cloud.function("logs", code)
    cloud.client("lambda").invoke(FunctionName="logs", Payload=b"{}")
    logs = cloud.client("logs")
    events = logs.filter_log_events(logGroupName="/aws/lambda/logs")["events"]
    assert "hello []" in "\n".join(event["message"] for event in events)


def test_equal_zips_are_extracted_once_and_a_function_still_sees_only_its_own_folder(cloud):
    source = "import os\ndef handler(e, c): return [os.path.realpath(__file__), os.getcwd()]\n"
    for name in ("first-twin", "second-twin"):
        cloud.function(name, source)
    answers = [
        json.loads(cloud.client("lambda").invoke(FunctionName=name, Payload=b"{}")["Payload"].read())
        for name in ("first-twin", "second-twin")
    ]
    assert answers[0][0] == answers[1][0]
    assert answers[0][1] != answers[1][1]
