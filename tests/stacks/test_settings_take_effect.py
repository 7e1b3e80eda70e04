"""The other choices, in one more synthesis: a Capacity Block, KMS, a public endpoint, endpoints, mail, tags."""

import json
from typing import Any

import pytest
from specdecode import names
from specdecode.experiment.claims import name_of
from specdecode.experiment.shapes import DEFAULT, SHAPES, TRN2

from tests.conftest import Assembly, synthesize
from tests.templates import Templates, as_list

pytestmark = pytest.mark.synth
BLOCK = "cr-0123456789abcdef0"
VARIANT = "-driver-2.29-topology"
BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(
        tmp_path_factory.mktemp("other"),
        region="ap-southeast-4",
        account="111122223333",
        cluster_name="bench",
        engine_generation="sdk-2.31",
        driver_guard="true",
        claim_constraint="topology",
        capacity_reservation_id=BLOCK,
        capacity_start="2099-01-01T11:30:00+00:00",
        capacity_end="2099-01-03T11:30:00+00:00",
        capacity_zones="apse4-az2",
        price_per_node_hour="30",
        nodes="3",
        endpoint_public_cidrs="198.51.100.0/24",
        interface_endpoints="sts,logs",
        node_storage="ebs",
        efa_interfaces="true",
        bucket_encryption="kms",
        removal_policy="destroy",
        run_retention_days="90",
        log_retention_days="7",
        longest_run_hours="6",
        alert_email="team@example.com",
        permissions_boundary=BOUNDARY,
        admin_role_arns="arn:aws:iam::111122223333:role/admin",
        tags="team=ml",
    )


@pytest.fixture(scope="module")
def choices(other: Assembly) -> Templates:
    return other.templates()


def test_each_device_of_the_node_can_have_an_efa_interface(choices: Templates, templates: Templates) -> None:
    """What workers of the native plugin look for; the variable by which they do without is then off in the plan."""
    of_nodes = _interfaces(choices)[names.NODEPOOL]
    cards = [(one["networkCardIndex"], one["deviceIndex"]) for one in of_nodes if one["interfaceType"] == "efa-only"]
    assert cards == [(0, 1), *((card, 0) for card in range(1, SHAPES[DEFAULT].efa_cards))]
    assert of_nodes[0] == {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    assert set(_interfaces(choices)) == {names.NODEPOOL} and not _interfaces(templates)
    assert (_lets_out_to_itself(choices), _lets_out_to_itself(templates)) == (1, 0)


def _lets_out_to_itself(templates: Templates) -> int:
    """How many rules let the traffic of a security group out to the same group."""
    rules = templates.properties("AWS::EC2::SecurityGroupEgress").values()
    return sum(rule["GroupId"] == rule.get("DestinationSecurityGroupId") for rule in rules)


def _interfaces(templates: Templates) -> dict[str, list[dict[str, Any]]]:
    """Kind of nodes -> the network interfaces that their class asks for."""
    found = (one for one in templates.manifests().values() if one["kind"] == "EC2NodeClass")
    asked = {one["metadata"]["name"].split("-")[0]: one["spec"].get("networkInterfaces") for one in found}
    return {name: interfaces for name, interfaces in asked.items() if interfaces}


def test_nothing_is_unexplained_there_either(other: Assembly) -> None:
    """cdk-nag finds nothing. That there is no budget in this region is said at synth."""
    assert other.findings == (("Annotation::specdecode:no-budget", "SpecDecodeStack/Alerts"),)


def test_a_reservation_is_what_the_node_comes_from(choices: Templates) -> None:
    pool = choices.manifest("NodePool", names.NODEPOOL)["spec"]["template"]["spec"]
    requirements = {item["key"]: item["values"] for item in pool["requirements"]}
    assert requirements["karpenter.sh/capacity-type"] == ["reserved"]
    assert requirements["topology.k8s.aws/zone-id"] == ["apse4-az2"]
    node_class = choices.manifest("EC2NodeClass", pool["nodeClassRef"]["name"])["spec"]
    assert node_class["capacityReservationSelectorTerms"] == [{"id": BLOCK}]
    disk = node_class["blockDeviceMappings"][0]["ebs"]
    assert disk["volumeSize"] == "3000Gi"
    # gp3 has 125 MiB/s unless asked, and four IOPS for each MiB/s at least.
    assert disk["throughput"] == 1000 and disk["iops"] >= 4 * disk["throughput"]
    assert "instanceStorePolicy" not in node_class
    assert pool["nodeClassRef"]["name"] == "trn2-sdk-2-31"
    assert node_class["amiSelectorTerms"] == [{"alias": "al2023@v20260714"}]


def test_each_pool_can_be_closed_to_karpenter_by_itself_and_many_at_once(choices: Templates) -> None:
    resources = choices.stacks["SpecDecodeStack"]["Resources"]
    (parts,) = [
        each["Properties"]["Environment"]["Variables"]["NO_LAUNCH_POLICIES"]["Fn::Join"][1]
        for name, each in resources.items()
        if each["Type"] == "AWS::Lambda::Function" and name.startswith("Backstop")
    ]
    pools = ["trn2", "trn2-2", "trn2-3", "cpu", "cpu-large"]
    assert [part.strip("=,") for part in parts if isinstance(part, str)] == [*pools, "all"]
    closed = [
        statement["Condition"]["StringEquals"]["aws:RequestTag/karpenter.sh/nodepool"]
        for part in parts
        if not isinstance(part, str)
        for statement in resources[part["Ref"]]["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert closed == [*([pool] for pool in pools), pools]


def test_each_node_has_a_pool_of_its_own_and_all_have_one_class(choices: Templates) -> None:
    pools = [choices.manifest("NodePool", name) for name in ("trn2", "trn2-2", "trn2-3")]
    for pool in pools:
        name, spec = pool["metadata"]["name"], pool["spec"]
        assert (spec["replicas"], spec["limits"]) == (0, {"nodes": "1"})
        assert spec["template"]["metadata"]["labels"] == {names.ACCELERATOR_LABEL: name}
    same = {**pools[0]["spec"]["template"], "metadata": None}
    assert all({**pool["spec"]["template"], "metadata": None} == same for pool in pools)
    assert choices.manifest("EC2NodeClass", same["spec"]["nodeClassRef"]["name"])
    held = ["trn2", "trn2-2", "trn2-3", "cpu", "cpu-large"]
    (scaling,) = [
        rule
        for rule in choices.manifest("ClusterRole", "specdecode-pipeline")["rules"]
        if rule["resources"] == ["nodepools/scale"]
    ]
    assert scaling["resourceNames"] == held
    assert [found["NODEPOOLS"] for found in choices.variables("NODEPOOLS")] == [",".join(held)]
    capacities = [json.loads(found["CAPACITY"]) for found in choices.variables("CAPACITY")]
    assert {(found["nodes"], found["price_per_node_hour"]) for found in capacities} == {(3, 30)}
    confined = [
        value["aws:ResourceTag/karpenter.sh/nodepool"]
        for policy in choices.properties("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        for value in statement.get("Condition", {}).values()
        if statement["Action"] == "ec2:TerminateInstances" and "aws:ResourceTag/karpenter.sh/nodepool" in value
    ]
    assert [*held, "staging", "compile"] in confined
    (ready,) = choices.properties("Custom::SpecDecodeReadyGuard").values()
    assert ready["Pools"] == [*held, "staging", "compile"]


def test_another_generations_node_class_is_another_resource(choices: Templates, templates: Templates) -> None:
    """Or CloudFormation would update it in place, and the old object would stay in the cluster."""
    ids = [
        {name for name in found.stacks["TrainiumClusterStack"]["Resources"] if name.startswith("TrainiumNodeClass")}
        for found in (choices, templates)
    ]
    assert not ids[0] & ids[1]


def test_alarms_and_budgets_may_publish(choices: Templates) -> None:
    (policy,) = choices.properties("AWS::SNS::TopicPolicy").values()
    services = {
        statement["Principal"]["Service"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    }
    assert services == {"budgets.amazonaws.com", "cloudwatch.amazonaws.com"}
    alarms = choices.properties("AWS::CloudWatch::Alarm")
    assert alarms
    for name, alarm in alarms.items():
        assert len(alarm["AlarmActions"]) == 1, name


def test_the_address_for_alerts_is_in_its_subscription_and_with_the_kept_settings(choices: Templates) -> None:
    found = {kind["Type"] for _, _, kind in choices.resources() if "team@example.com" in str(kind.get("Properties"))}
    assert found == {"AWS::SNS::Subscription", "Custom::SpecDecodeSettingsGuard", "AWS::Lambda::Function"}
    (plan,) = [name for _, name, kind in choices.resources("AWS::Lambda::Function") if "team@" in str(kind)]
    assert plan.startswith("PipelinePlanFunction")
    assert "team@example.com" not in str([template["Outputs"] for template in choices.stacks.values()])


def test_the_driver_guard_leaves_pods_pending_on_another_driver(choices: Templates) -> None:
    claim = choices.manifest("ResourceClaimTemplate", name_of(8, TRN2, VARIANT))
    selectors = claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    assert selectors[-1] == {
        "cel": {"expression": "device.attributes['neuron.aws.com'].neuronDriverVersion.startsWith('2.29.')"}
    }


def test_devices_can_be_held_together_by_their_place_in_the_torus(choices: Templates) -> None:
    constraints = [
        choices.manifest("ResourceClaimTemplate", name_of(size, TRN2, VARIANT))["spec"]["spec"]["devices"][
            "constraints"
        ]
        for size in (8, 16)
    ]
    assert constraints == [[{"requests": ["neurons"], "matchAttribute": "neuron.aws.com/topology8_id"}], []]


def test_a_reservation_needs_no_price(choices: Templates) -> None:
    assert not [obj for obj in choices.manifests().values() if obj["kind"] == "NodeOverlay"]
    assert choices.charts()["karpenter"]["Values"]["settings"]["featureGates"]["nodeOverlay"] is False


def test_literal_names_follow_the_cluster(choices: Templates) -> None:
    conditions = str([statement for _, statement in choices.statements()])
    assert "kubernetes.io/cluster/bench" in conditions
    assert "specdecode" not in conditions.replace("specdecode/huggingface-token", "")
    (queue,) = choices.properties("AWS::SQS::Queue").values()
    assert queue["QueueName"] == "bench"


def test_kms_key_is_used_by_those_who_read_and_write(choices: Templates) -> None:
    buckets = choices.properties("AWS::S3::Bucket").values()
    algorithms = {
        rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"]
        for bucket in buckets
        for rule in bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    }
    assert algorithms == {"aws:kms", "AES256"}
    users: dict[str, set[str]] = {}
    for name, statement in choices.statements():
        for action in as_list(statement["Action"]):
            if action.startswith("kms:"):
                users.setdefault(name.rpartition("Role")[0], set()).add(action)
    assert users["SpecDecodeStack/ServiceAccountsServing"] == {"kms:Decrypt"}
    for writer in ("Staging", "Compile", "Results"):
        assert users[f"SpecDecodeStack/PodRoles{writer}"] == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_destroy_means_destroy(choices: Templates) -> None:
    (emptier,) = [
        function["Properties"]
        for _, name, function in choices.resources("AWS::Lambda::Function")
        if name.startswith("CustomS3AutoDelete")
    ]
    assert "LogGroup" in emptier["LoggingConfig"]
    for _, name, bucket in choices.resources("AWS::S3::Bucket"):
        assert bucket["DeletionPolicy"] == "Delete", name
    assert len(list(choices.resources("Custom::S3AutoDeleteObjects"))) == 2


def test_the_public_endpoint_is_for_the_named_ranges(choices: Templates) -> None:
    (cluster,) = choices.properties("AWS::EKS::Cluster").values()
    network = cluster["ResourcesVpcConfig"]
    assert network["EndpointPublicAccess"] and network["EndpointPrivateAccess"]
    assert network["PublicAccessCidrs"] == ["198.51.100.0/24"]


def test_every_role_has_the_boundary(choices: Templates) -> None:
    for name, role in choices.properties("AWS::IAM::Role").items():
        assert role.get("PermissionsBoundary") == BOUNDARY, name


def test_the_rest(choices: Templates) -> None:
    assert len(list(choices.resources("AWS::EC2::VPCEndpoint"))) == 3
    assert {group["RetentionInDays"] for group in choices.properties("AWS::Logs::LogGroup").values()} == {7}
    (mail,) = choices.properties("AWS::SNS::Subscription").values()
    assert mail["Endpoint"] == "team@example.com"
    (topic,) = choices.properties("AWS::SNS::Topic").values()
    assert {"Key": "team", "Value": "ml"} in topic["Tags"]
    rules = [
        rule
        for bucket in choices.properties("AWS::S3::Bucket").values()
        for rule in bucket["LifecycleConfiguration"]["Rules"]
    ]
    assert [rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") == "runs/"] == [90]


def test_pods_without_an_open_egress_reach_the_vpcs_interface_endpoints(choices: Templates) -> None:
    policies = {
        obj["metadata"]["name"]: obj["spec"]
        for obj in choices.manifests().values()
        if obj["kind"] == "NetworkPolicy" and "vpc-endpoints" in obj["metadata"]["name"]
    }
    assert set(policies) == {"specdecode-vpc-endpoints-carriers", "specdecode-vpc-endpoints-monitored"}
    for spec in policies.values():
        (way,) = spec["egress"]
        assert way["to"] == [{"ipBlock": {"cidr": "10.0.0.0/16"}}] and way["ports"] == [
            {"protocol": "TCP", "port": 443}
        ]
        (expression,) = spec["podSelector"]["matchExpressions"]
        assert not {"serving", "benchmark", "smoke", "accuracy"} & set(expression["values"])
