"""EKS in CloudFormation: clusters whose API is the double, access entries, add-ons, pod identities.

The emulator keeps the records, so that `aws eks describe-…` answers. Changes inside a cluster also go to the double. It
authenticates by the access entries, and acts as the add-ons do.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from ministack.services import eks

from rehearsal.cloud.kubernetes import Kubernetes

Properties = Mapping[str, Any]
Handlers = dict[str, Callable[..., Any]]
Created = tuple[str, dict[str, str]]


def checked(response: tuple[Any, ...]) -> None:
    """Raise ValueError with the emulator's message unless it answered with success."""
    status, body = response[0], response[2]
    if status >= 400:
        raise ValueError(body.decode() if isinstance(body, bytes) else str(body))


def endpoint_of_double(kubernetes: Kubernetes, create: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the emulator's CreateCluster: endpoint, CA and OIDC issuer become those of the double."""

    def create_cluster(body: dict[str, Any], creator_arn: str | None = None) -> Any:
        response = create(body, creator_arn)
        cluster = eks._clusters.get(body.get("name", ""))
        if response[0] < 400 and cluster is not None:
            cluster["endpoint"] = kubernetes.url
            cluster["certificateAuthority"]["data"] = base64.b64encode(kubernetes.ca_file.read_bytes()).decode()
            cluster["identity"]["oidc"]["issuer"] = kubernetes.issuer
            cluster["status"] = "ACTIVE"
        return response

    return create_cluster


def access_entry(kubernetes: Kubernetes) -> Handlers:
    """Handlers of AWS::EKS::AccessEntry: the double lets the principal in, or no longer."""

    def tell(request: str, props: Properties) -> None:
        kubernetes.request(
            "POST",
            "/_rehearsal/access-entry",
            {
                "request": request,
                "principal_arn": props["PrincipalArn"],
                "type": props.get("Type", "STANDARD"),
                "groups": props.get("KubernetesGroups", []),
                "username": props.get("Username", ""),
                "policies": [
                    {
                        "policy_arn": policy["PolicyArn"],
                        "scope": policy["AccessScope"]["Type"],
                        "namespaces": policy["AccessScope"].get("Namespaces", []),
                    }
                    for policy in props.get("AccessPolicies", [])
                ],
            },
        )

    def create(_logical_id: str, props: Properties, _stack: str) -> Created:
        cluster, principal = props["ClusterName"], props["PrincipalArn"]
        body = {
            "principalArn": principal,
            "type": props.get("Type", "STANDARD"),
            "kubernetesGroups": props.get("KubernetesGroups", []),
            "username": props.get("Username", ""),
        }
        checked(eks._create_access_entry(cluster, body))
        tell("Create", props)
        arn = eks._access_entries[eks._ae_key(cluster, principal)]["accessEntryArn"]
        return f"{cluster}|{principal}", {"AccessEntryArn": arn}

    def update(physical_id: str, old: Properties, new: Properties, stack: str) -> Created:
        if (old["ClusterName"], old["PrincipalArn"]) != (new["ClusterName"], new["PrincipalArn"]):
            delete(physical_id, old)
            return create("", new, stack)
        eks._update_access_entry(
            new["ClusterName"], new["PrincipalArn"], {"kubernetesGroups": new.get("KubernetesGroups", [])}
        )
        tell("Update", new)
        arn = eks._access_entries[eks._ae_key(new["ClusterName"], new["PrincipalArn"])]["accessEntryArn"]
        return physical_id, {"AccessEntryArn": arn}

    def delete(_physical_id: str, props: Properties) -> None:
        tell("Delete", props)
        eks._delete_access_entry(props["ClusterName"], props["PrincipalArn"])

    return {"create": create, "update": update, "delete": delete}


def addon(kubernetes: Kubernetes) -> Handlers:
    """Handlers of AWS::EKS::Addon: the double installs the add-on, or removes it."""

    def tell(request: str, props: Properties) -> None:
        kubernetes.request(
            "POST",
            "/_rehearsal/addon",
            {
                "request": request,
                "name": props["AddonName"],
                "version": props.get("AddonVersion", ""),
                "configuration": props.get("ConfigurationValues", ""),
                "role_arn": props.get("ServiceAccountRoleArn", ""),
            },
        )

    def body(props: Properties) -> dict[str, Any]:
        return {
            "addonName": props["AddonName"],
            "addonVersion": props.get("AddonVersion", ""),
            "configurationValues": props.get("ConfigurationValues", ""),
            "serviceAccountRoleArn": props.get("ServiceAccountRoleArn", ""),
        }

    def identity(props: Properties) -> Created:
        cluster, name = props["ClusterName"], props["AddonName"]
        return f"{cluster}|{name}", {"Arn": eks._addons[f"{cluster}/{name}"]["addonArn"]}

    def create(_logical_id: str, props: Properties, _stack: str) -> Created:
        checked(eks._create_addon(props["ClusterName"], body(props)))
        tell("Create", props)
        return identity(props)

    def update(_physical_id: str, _old: Properties, new: Properties, _stack: str) -> Created:
        checked(eks._update_addon(new["ClusterName"], new["AddonName"], body(new)))
        tell("Update", new)
        return identity(new)

    def delete(_physical_id: str, props: Properties) -> None:
        tell("Delete", props)
        eks._delete_addon(props["ClusterName"], props["AddonName"])

    return {"create": create, "update": update, "delete": delete}


def pod_identity() -> Handlers:
    """AWS::EKS::PodIdentityAssociation: a record only, since the double's node knows IRSA only."""

    def create(_logical_id: str, props: Properties, _stack: str) -> Created:
        cluster = props["ClusterName"]
        body = {
            "namespace": props["Namespace"],
            "serviceAccount": props["ServiceAccount"],
            "roleArn": props["RoleArn"],
        }
        checked(eks._create_pod_identity_association(cluster, body))
        record = next(
            a
            for a in eks._pod_identity_associations.values()
            if (a["clusterName"], a["namespace"], a["serviceAccount"])
            == (cluster, body["namespace"], body["serviceAccount"])
        )
        arn = record["associationArn"]
        return arn, {"AssociationArn": arn, "AssociationId": record["associationId"]}

    def delete(physical_id: str, props: Properties) -> None:
        eks._delete_pod_identity_association(props["ClusterName"], physical_id.rsplit("/", 1)[-1])

    return {"create": create, "delete": delete}
