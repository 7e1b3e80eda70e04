"""Reading synthesized templates: intrinsic functions resolved with stand-ins, manifests, charts, dependencies."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Template = Mapping[str, Any]

PSEUDO = {
    "AWS::AccountId": "111122223333",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-2",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::NoValue": None,
}
PHYSICAL = {
    "AWS::EC2::Subnet": "subnet-{}",
    "AWS::EC2::SecurityGroup": "sg-{}",
    "AWS::EC2::VPC": "vpc-{}",
    "AWS::S3::Bucket": "bucket-{}",
    "AWS::EKS::Cluster": "specdecode",
    "AWS::IAM::ManagedPolicy": "arn:aws:iam::111122223333:policy/{}",
    "AWS::StepFunctions::StateMachine": "arn:aws:states:us-east-2:111122223333:stateMachine:machine-{}",
    "AWS::IAM::OIDCProvider": "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-east-2.amazonaws.com/id/{}",
    "AWS::SNS::Topic": "arn:aws:sns:us-east-2:111122223333:{}",
    "AWS::SQS::Queue": "https://sqs.us-east-2.amazonaws.com/111122223333/{}",
}
ARNS = {
    "AWS::EKS::Cluster": "arn:aws:eks:us-east-2:111122223333:cluster/{}",
    "AWS::IAM::Role": "arn:aws:iam::111122223333:role/{}",
    "AWS::KMS::Key": "arn:aws:kms:us-east-2:111122223333:key/{}",
    "AWS::Lambda::Function": "arn:aws:lambda:us-east-2:111122223333:function:{}",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-2:111122223333:log-group:{}:*",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-2:111122223333:{}",
}


class Templates:
    """The templates of an assembly, resolved across each other's exports."""

    def __init__(self, stacks: Mapping[str, Template]) -> None:
        self.stacks = stacks
        self._exports = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in stacks.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def resolve(self, stack: str, value: Any) -> Any:
        """`value` with every intrinsic function replaced by what it could be in a deployment."""
        match value:
            case {"Ref": name}:
                return PSEUDO[name] if name in PSEUDO else self._physical(stack, name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._attribute(stack, name, attribute)
            case {"Fn::ImportValue": name}:
                return self.resolve(*self._exports[name])
            case {"Fn::Join": [separator, parts]}:
                return separator.join(str(self.resolve(stack, part)) for part in parts)
            case {"Fn::Split": [separator, text]}:
                return str(self.resolve(stack, text)).split(separator)
            case {"Fn::Select": [index, items]}:
                return self.resolve(stack, items)[int(index)]
            case {"Fn::Sub": str() as text}:
                return re.sub(r"\$\{([^}]+)\}", lambda m: str(self.resolve(stack, {"Ref": m[1]})), text)
            case {"Fn::If": [_, then, _otherwise]}:
                return self.resolve(stack, then)
            case dict():
                return {key: self.resolve(stack, item) for key, item in value.items()}
            case list():
                return [self.resolve(stack, item) for item in value]
        return value

    def resources(self, kind: str | None = None) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Stack, logical id and resource of every resource (of type `kind`)."""
        for stack, template in self.stacks.items():
            for name, resource in template["Resources"].items():
                if kind is None or resource["Type"] == kind:
                    yield stack, name, resource

    def properties(self, kind: str) -> dict[str, dict[str, Any]]:
        """Resolved properties of every resource of type `kind`, by `Stack/LogicalId`."""
        return {
            f"{stack}/{name}": self.resolve(stack, resource.get("Properties", {}))
            for stack, name, resource in self.resources(kind)
        }

    def variables(self, having: str = "") -> list[dict[str, Any]]:
        """The environment of each function that has the variable `having`, or of every one."""
        functions = self.properties("AWS::Lambda::Function").values()
        found = [function.get("Environment", {}).get("Variables", {}) for function in functions]
        return [variables for variables in found if not having or having in variables]

    def manifests(self) -> dict[str, dict[str, Any]]:
        """Every Kubernetes object that the stacks apply, by `Stack/LogicalId`."""
        found = {}
        for name, properties in self.properties("Custom::AWSCDK-EKS-KubernetesResource").items():
            (found[name],) = json.loads(properties["Manifest"])
        return found

    def manifest(self, kind: str, name: str) -> dict[str, Any]:
        (found,) = [obj for obj in self.manifests().values() if obj["kind"] == kind and obj["metadata"]["name"] == name]
        return found

    def charts(self) -> dict[str, dict[str, Any]]:
        """Every Helm release, by name, with its values parsed."""
        return {
            properties["Release"]: {**properties, "Values": json.loads(properties.get("Values", "{}"))}
            for properties in self.properties("Custom::AWSCDK-EKS-HelmChart").values()
        }

    def statements(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every statement of every IAM policy that the stacks attach to an identity, resolved."""
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for name, properties in self.properties(kind).items():
                for statement in properties["PolicyDocument"]["Statement"]:
                    yield name, statement
        for name, properties in self.properties("AWS::IAM::Role").items():
            for policy in properties.get("Policies", ()):
                for statement in policy["PolicyDocument"]["Statement"]:
                    yield name, statement

    def _physical(self, stack: str, name: str) -> str:
        kind = self.stacks[stack]["Resources"].get(name, {}).get("Type", "")
        digits = hashlib.sha256(name.encode()).hexdigest()[:17]
        return PHYSICAL.get(kind, name[:40] + "-{}").format(digits)

    def _attribute(self, stack: str, name: str, attribute: str) -> str:
        if attribute.endswith("SecurityGroupId") or attribute == "GroupId":
            return "sg-" + hashlib.sha256(name.encode()).hexdigest()[:17]
        if attribute.endswith("Arn"):
            kind = self.stacks[stack]["Resources"].get(name, {}).get("Type", "")
            return ARNS.get(kind, "arn:aws:service:us-east-2:111122223333:{}").format(name)
        if attribute == "Name" and self.stacks[stack]["Resources"][name]["Type"] == "AWS::StepFunctions::StateMachine":
            return self._physical(stack, name).rpartition(":")[2]
        if attribute == "QueueName":
            return str(self.stacks[stack]["Resources"][name]["Properties"]["QueueName"])
        return f"{name}.{attribute}"


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def references(value: Any) -> set[str]:
    """Logical ids that a value refers to."""
    match value:
        case {"Ref": str() as name}:
            return {name}
        case {"Fn::GetAtt": [str() as name, *_]}:
            return {name}
        case {"Fn::Sub": str() as text}:
            return set(re.findall(r"\$\{([^}.]+)", text))
        case dict():
            return set().union(*(references(item) for item in value.values()))
        case list():
            return set().union(*(references(item) for item in value))
    return set()


def dependencies(template: Template) -> dict[str, set[str]]:
    """Logical id -> all that must exist before it (transitively): it is created after them and deleted before them."""
    resources = template["Resources"]
    direct = {
        name: (references(resource.get("Properties", {})) | set(as_list(resource.get("DependsOn", []))))
        & set(resources) - {name}
        for name, resource in resources.items()
    }
    closed: dict[str, set[str]] = {}

    def close(name: str) -> set[str]:
        if name not in closed:
            closed[name] = set(direct[name])
            for before in direct[name]:
                closed[name] |= close(before)
        return closed[name]

    for name in resources:
        close(name)
    return closed
