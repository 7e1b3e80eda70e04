"""The effect of a failed pod on its Job."""

from rehearsal.kubernetes.controllers.failure_policy import judge


def pod(code, *, container="main", conditions=()):
    state = {"terminated": {"exitCode": code}}
    return {
        "metadata": {"name": "p", "namespace": "n"},
        "status": {
            "containerStatuses": [{"name": container, "state": state}],
            "conditions": [{"type": kind, "status": "True"} for kind in conditions],
        },
    }


def job(*rules):
    return {"spec": {"podFailurePolicy": {"rules": list(rules)}} if rules else {}}


def exits(action, operator, *values, container="main"):
    return {"action": action, "onExitCodes": {"containerName": container, "operator": operator, "values": list(values)}}


def test_without_a_policy_every_failure_counts():
    assert len(judge(job(), [pod(1), pod(70)]).counted) == 2


def test_a_permanent_exit_code_ends_the_job_with_kubernetes_message():
    judgement = judge(job(exits("FailJob", "In", 70)), [pod(1), pod(70)])
    assert judgement.fail == "Container main for pod n/p failed with exit code 70 matching FailJob rule at index 0"


def test_other_codes_and_other_containers_do_not():
    policy = job(exits("FailJob", "In", 70))
    assert judge(policy, [pod(1)]).fail is None
    assert judge(policy, [pod(70, container="other")]).fail is None
    assert judge(job(exits("FailJob", "NotIn", 1)), [pod(1)]).fail is None


def test_the_first_matching_rule_decides():
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    judgement = judge(job(ignored, exits("FailJob", "In", 143)), [pod(143, conditions=["DisruptionTarget"])])
    assert (judgement.fail, judgement.counted) == (None, [])


def test_a_rule_without_a_container_judges_those_that_run_first_too():
    failed = pod(0)
    failed["status"]["initContainerStatuses"] = [{"name": "fetch", "state": {"terminated": {"exitCode": 77}}}]
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [77]}}
    assert (
        judge(job(rule), [failed]).fail
        == "Container fetch for pod n/p failed with exit code 77 matching FailJob rule at index 0"
    )
    assert judge(job(exits("FailJob", "In", 77)), [failed]).fail is None
