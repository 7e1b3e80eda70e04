"""The changes that CloudFormation makes in a cluster reach the Kubernetes API."""

import base64
import json

import pytest

from rehearsal import servers

ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "RoleName": "cluster",
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        },
    },
}
CLUSTER = {
    "Type": "AWS::EKS::Cluster",
    "Properties": {
        "Name": "specdecode",
        "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
        "ResourcesVpcConfig": {"SubnetIds": ["subnet-1"]},
    },
}
SERVICE = "arn:aws:lambda:us-east-2:000000000000:function:never-runs"


def manifest(*objects):
    return {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"ServiceToken": SERVICE, "ClusterName": "specdecode", "Manifest": json.dumps(objects)},
    }


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "specdecode"}}


@pytest.fixture(scope="module")
def stack(cloud):
    cloud.requests.clear()
    cluster = {"Ref": "Cluster"}
    outputs = cloud.deploy(
        "cluster",
        {
            "Role": ROLE,
            "Cluster": CLUSTER,
            "Access": {
                "Type": "AWS::EKS::AccessEntry",
                "Properties": {
                    "ClusterName": cluster,
                    "PrincipalArn": "arn:aws:iam::000000000000:role/pipeline",
                    "KubernetesGroups": ["specdecode:pipeline"],
                    "AccessPolicies": [
                        {"PolicyArn": "arn:aws:eks::aws:cluster-access-policy/View", "AccessScope": {"Type": "cluster"}}
                    ],
                },
            },
            "Driver": {
                "Type": "AWS::EKS::Addon",
                "Properties": {
                    "ClusterName": cluster,
                    "AddonName": "aws-mountpoint-s3-csi-driver",
                    "AddonVersion": "v2.0.0-eksbuild.1",
                    "ServiceAccountRoleArn": "arn:aws:iam::000000000000:role/csi",
                },
            },
            "Identity": {
                "Type": "AWS::EKS::PodIdentityAssociation",
                "Properties": {
                    "ClusterName": cluster,
                    "Namespace": "kube-system",
                    "ServiceAccount": "karpenter",
                    "RoleArn": "arn:aws:iam::000000000000:role/karpenter",
                },
            },
            "Chart": {
                "Type": "Custom::AWSCDK-EKS-HelmChart",
                "DependsOn": ["Access", "Driver"],
                "Properties": {
                    "ServiceToken": SERVICE,
                    "ClusterName": cluster,
                    "Release": "karpenter",
                    "Namespace": "kube-system",
                    "Chart": "oci://public.ecr.aws/karpenter/karpenter",
                    "Version": "1.8.1",
                    "Values": '{"settings": {"clusterName": "specdecode"}}',
                },
            },
            "Maps": manifest(config_map("first"), config_map("second")) | {"DependsOn": "Chart"},
        },
        Endpoint={"Fn::GetAtt": ["Cluster", "Endpoint"]},
        Issuer={"Fn::GetAtt": ["Cluster", "OpenIdConnectIssuerUrl"]},
        Authority={"Fn::GetAtt": ["Cluster", "CertificateAuthorityData"]},
    )
    yield outputs, list(cloud.requests)
    cloud.requests.clear()
    cloud.delete("cluster")


def sent(requests, path):
    return [body for method, where, body in requests if (method, where) == ("POST", f"/_rehearsal/{path}")]


def test_the_cluster_is_the_double(cloud, stack):
    outputs, _ = stack
    assert outputs["Endpoint"] == cloud.kubernetes_url
    assert outputs["Issuer"] == servers.ISSUER
    assert b"BEGIN CERTIFICATE" in base64.b64decode(outputs["Authority"])
    described = cloud.client("eks").describe_cluster(name="specdecode")["cluster"]
    assert (described["status"], described["endpoint"]) == ("ACTIVE", cloud.kubernetes_url)


def test_access_entries_and_addons_are_told(cloud, stack):
    _, requests = stack
    assert sent(requests, "access-entry") == [
        {
            "request": "Create", "principal_arn": "arn:aws:iam::000000000000:role/pipeline", "type": "STANDARD",
            "groups": ["specdecode:pipeline"], "username": "",
            "policies": [
                {"policy_arn": "arn:aws:eks::aws:cluster-access-policy/View", "scope": "cluster", "namespaces": []}
            ],
        }
    ]  # fmt: skip
    assert sent(requests, "addon") == [
        {
            "request": "Create", "name": "aws-mountpoint-s3-csi-driver", "version": "v2.0.0-eksbuild.1",
            "configuration": "", "role_arn": "arn:aws:iam::000000000000:role/csi",
        }
    ]  # fmt: skip
    addon = cloud.client("eks").describe_addon(clusterName="specdecode", addonName="aws-mountpoint-s3-csi-driver")
    assert addon["addon"]["status"] == "ACTIVE"


def test_charts_and_manifests_are_told_in_order_and_without_their_lambda(stack):
    _, requests = stack
    [chart] = sent(requests, "helm")
    assert (chart["release"], chart["version"], chart["values"]["settings"]["clusterName"]) == (
        "karpenter", "1.8.1", "specdecode",
    )  # fmt: skip
    applied = [where.split("?")[0] for method, where, _ in requests if method == "PATCH"]
    base = "/api/v1/namespaces/specdecode/configmaps"
    assert applied == [f"{base}/first", f"{base}/second"]


def test_an_update_deletes_what_left_the_manifest_and_a_delete_the_rest(cloud):
    cloud.deploy("maps", {"Maps": manifest(config_map("kept"), config_map("dropped"))})
    cloud.requests.clear()
    formation = cloud.client("cloudformation")
    formation.update_stack(
        StackName="maps", TemplateBody=json.dumps({"Resources": {"Maps": manifest(config_map("kept"))}})
    )
    formation.get_waiter("stack_update_complete").wait(StackName="maps", WaiterConfig={"Delay": 1})
    assert [where for method, where, _ in cloud.requests if method == "DELETE"] == [
        "/api/v1/namespaces/specdecode/configmaps/dropped"
    ]
    cloud.requests.clear()
    cloud.delete("maps")
    assert [where for method, where, _ in cloud.requests if method == "DELETE"] == [
        "/api/v1/namespaces/specdecode/configmaps/kept"
    ]


def test_a_kind_that_is_not_served_fails_the_stack_as_kubectl_would(cloud):
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "trn2"}}
    with pytest.raises(AssertionError, match=r'no matches for kind "NodePool" in version "karpenter\.sh/v1"'):
        cloud.deploy("too-early", {"Pool": manifest(pool)})
