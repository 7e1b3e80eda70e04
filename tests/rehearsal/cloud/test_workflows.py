"""The parts of the state machine language that our pipeline uses: JSONata, Map, Retry, Catch, Wait, stopping."""

import json
import subprocess
import time

import pytest

from rehearsal import tools
from tests.patience import until


def test_a_stopped_execution_is_redriven_from_where_it_was(cloud):
    """With its input and its variables; what was done before is not done again."""
    code = "seen.append(1); time.sleep(0.5); return {'calls': len(seen), 'got': e}"
    cloud.function("counts", f"import time\nseen = []\ndef handler(e, c): {code}\n")
    invoke = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke"}
    redrives = {"redrives": "{% $states.context.Execution.RedriveCount %}"}
    call = {"FunctionName": "counts", "Payload": {"n": "{% $n %}", **redrives}}
    machine = cloud.machine(
        "redriven",
        {
            "StartAt": "First",
            "States": {
                "First": invoke
                | {
                    "Arguments": {"FunctionName": "counts", "Payload": redrives},
                    "Assign": {"n": "{% $states.input.n %}"},
                    "Next": "Hold",
                },
                "Hold": {"Type": "Wait", "Seconds": 100, "Next": "Last"},
                "Last": invoke | {"Arguments": call, "Output": "{% $states.result.Payload %}", "Next": "Enough?"},
                "Enough?": {
                    "Type": "Choice",
                    "Choices": [{"Condition": "{% $n > 1 %}", "Next": "Enough"}],
                    "Default": "TooFew",
                },
                "Enough": {"Type": "Succeed"},
                "TooFew": {"Type": "Fail", "Error": "TooFew", "Cause": "n"},
            },
        },
    )
    states, tries = cloud.client("stepfunctions"), []

    def stopped(n):
        """An execution that was stopped while it held; None if the machine was too slow for that."""
        arn = states.start_execution(stateMachineArn=machine, input=json.dumps({"n": n}))["executionArn"]
        tries.append(arn)
        until(lambda: "Hold" in entered(arn))
        with pytest.raises(states.exceptions.ExecutionNotRedrivable):
            states.redrive_execution(executionArn=arn)
        try:
            states.stop_execution(executionArn=arn, error="Stopped", cause="by hand")
        except states.exceptions.ClientError:
            return None
        return arn if entered(arn) == ["First", "Hold"] else None

    def ended(n):
        arn = until(lambda: stopped(n))
        states.redrive_execution(executionArn=arn)
        assert states.describe_execution(executionArn=arn)["status"] != "ABORTED"
        until(lambda: states.describe_execution(executionArn=arn)["status"] != "RUNNING")
        return states.describe_execution(executionArn=arn)

    def entered(arn):
        events = states.get_execution_history(executionArn=arn)["events"]
        return [e["stateEnteredEventDetails"]["name"] for e in events if e["type"].endswith("StateEntered")]

    result = ended(2)
    assert (result["status"], (found := json.loads(result["output"]))["got"]) == ("SUCCEEDED", {"n": 2, "redrives": 1})
    assert found["calls"] == 2 or len(tries) > 1
    assert result["redriveCount"] == 1
    assert entered(result["executionArn"]) == ["First", "Hold", "Hold", "Last", "Enough?", "Enough"]
    result = ended(1)
    assert (result["status"], result["error"]) == ("FAILED", "TooFew")


LOOKING = """
seen = {}
class Soon(Exception): pass
class Bug(Exception): pass
def handler(e, c):
    calls = seen[e['of']] = seen.get(e['of'], 0) + 1
    kind = e['script'][min(calls, len(e['script'])) - 1]
    if kind == 'done': return {'calls': calls}
    raise {'soon': Soon, 'bug': Bug}[kind](f'look {calls}')
"""
"""A function that ends as its script says, call by call."""


def looking(cloud, name, *, soon_s=1):
    """A machine with one state, which waits by a retrier and is entered again after two retries."""
    cloud.function(name, LOOKING)
    payload = {"of": "{% $states.context.Execution.Name %}", "script": "{% $states.context.Execution.Input %}"}
    looks = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": name, "Payload": payload},
        "Output": "{% $states.result.Payload %}",
        "Retry": [
            {"ErrorEquals": ["Soon"], "IntervalSeconds": soon_s, "MaxAttempts": 2, "BackoffRate": 1.0},
            {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 2, "JitterStrategy": "FULL"},
        ],
        "Catch": [{"ErrorEquals": ["Soon"], "Next": "Look"}],
        "End": True,
    }
    return cloud.machine(name, {"StartAt": "Look", "States": {"Look": looks}})


def test_a_task_waits_by_a_retrier_and_real_errors_have_their_tries_in_every_visit(cloud):
    """Step Functions' guide, "Handling errors": each retrier counts its own retries. Three events a try, as in the
    histories of AWS; two more when the state is entered again.
    """
    machine = looking(cloud, "looking")
    script = ["soon", "bug", "soon", "bug", "soon", "bug", "bug", "soon", "done"]
    result = cloud.execute(machine, script)
    assert (result["status"], json.loads(result["output"])) == ("SUCCEEDED", {"calls": len(script)})
    history = cloud.client("stepfunctions").get_execution_history(executionArn=result["executionArn"])["events"]
    tries = [event["type"] for event in history if event["type"] not in {"ExecutionStarted", "ExecutionSucceeded"}]
    look = ["TaskScheduled", "TaskStarted", "TaskFailed"]
    entered, left = ["TaskStateEntered"], ["TaskStateExited"]
    last = ["TaskScheduled", "TaskStarted", "TaskSucceeded"]
    assert tries == entered + 5 * look + left + entered + 3 * look + last + left
    said = [json.loads(e["taskFailedEventDetails"]["cause"])["errorMessage"] for e in history if "Failed" in e["type"]]
    assert said == [f"look {n}" for n in range(1, len(script))]
    result = cloud.execute(machine, ["soon", "bug", "bug", "bug", "done"])
    assert (result["status"], result["error"]) == ("FAILED", "Bug"), "the third in a row"


def test_a_stop_during_the_pause_ends_the_tries_and_a_redrive_goes_on(cloud):
    machine, states = looking(cloud, "stopped-looks", soon_s=100), cloud.client("stepfunctions")
    arn = states.start_execution(stateMachineArn=machine, input='["soon", "done"]')["executionArn"]

    def kinds():
        return [event["type"] for event in states.get_execution_history(executionArn=arn)["events"]]

    until(lambda: kinds()[-1] == "TaskFailed")
    states.stop_execution(executionArn=arn, error="Stopped", cause="by hand")
    time.sleep(2.5)  # longer than the pause, shortened as it is
    assert kinds()[-2:] == ["TaskFailed", "ExecutionAborted"]
    states.redrive_execution(executionArn=arn)
    until(lambda: states.describe_execution(executionArn=arn)["status"] != "RUNNING")
    ended = states.describe_execution(executionArn=arn)
    assert (ended["status"], json.loads(ended["output"])) == ("SUCCEEDED", {"calls": 2}), (
        "no try was made after the stop"
    )


def test_a_pause_grows_up_to_its_longest_delay_and_may_be_any_shorter_time():
    code = (
        "import json, os; os.environ['GATEWAY_PORT'] = '1'\n"
        "from rehearsal.cloud.workflows import pause\n"
        "rule = {'IntervalSeconds': 3, 'BackoffRate': 2.0, 'MaxDelaySeconds': 60}\n"
        "jitter = [pause(rule | {'JitterStrategy': 'FULL'}, 3) for _ in range(200)]\n"
        "same = [pause({'IntervalSeconds': 300, 'BackoffRate': 1.0}, n) for n in (0, 9)]\n"
        "print(json.dumps([[pause(rule, n) for n in range(6)], [pause({}, n) for n in range(3)], same, jitter]))\n"
    )
    result = subprocess.run(
        [tools.CLOUD_PYTHON, "-c", code], cwd=tools.ROOT, capture_output=True, text=True, check=True
    )
    grown, defaults, same, jitter = json.loads(result.stdout)
    assert (grown, defaults, same) == ([3, 6, 12, 24, 48, 60], [1, 2, 4], [300, 300])
    assert 0 <= min(jitter) < 6 and 18 < max(jitter) <= 24
