"""Calls of every other service, in the same form: metrics, logs, secrets, runs, roles, the cluster, instances."""

from specdecode import names
from specdecode.names import CLUSTER_STACK, STACK

from tests.access.calls import NOBODY, OBJECTS, Call, call
from tests.access.principals import GUARDS, IN_VPC, STEPS

WATCHDOG = frozenset({"Watchdog"})
KARPENTER = frozenset({"Karpenter"})
BACKSTOP = frozenset({"Backstop"})
EKS_LOGS = "arn:aws:logs:{region}:{account}:log-group:/aws/eks/specdecode/cluster"
POINT = [{"MetricName": "Trial", "Value": 1.0}]


def _publish(namespace: str, may: frozenset[str]) -> Call:
    return Call(
        what=f"publish metrics as `{namespace}`",
        action="cloudwatch:PutMetricData",
        resource="*",
        may=may,
        request=("cloudwatch", "put_metric_data", {"Namespace": namespace, "MetricData": POINT}),
        context={"cloudwatch:namespace": namespace},
    )


def _log(function: str) -> Call:
    stream = f"{{{function.lower()}_logs}}:log-stream:trial"
    return call(f"write to the log of {function}", "logs:PutLogEvents", stream, frozenset({function}))


def _secret(what: str, name: str, may: frozenset[str]) -> Call:
    arn = f"arn:aws:secretsmanager:{{region}}:{{account}}:secret:{name}-AbCdEf"
    return call(what, "secretsmanager:GetSecretValue", arn, may, "get_secret_value", SecretId=arn)


TELEMETRY = (
    _publish("Qwen/LLMPerf", frozenset({"monitored", "Report"})),
    _publish("SpecDecode/Operations", WATCHDOG),
    _publish("ContainerInsights", NOBODY),
    call("change an alarm", "cloudwatch:PutMetricAlarm", "arn:aws:cloudwatch:{region}:{account}:alarm:trial",
         NOBODY, "put_metric_alarm", AlarmName="trial", EvaluationPeriods=1, ComparisonOperator="GreaterThanThreshold"),
    _log("Plan"),
    _log("Watchdog"),
    _log("Backstop"),
    call("read a metric", "cloudwatch:GetMetricStatistics", "*", BACKSTOP | frozenset({"RunGuards"}),
         "get_metric_statistics",
         Namespace="SpecDecode/Operations", MetricName="WatchdogHeartbeat", StartTime="2026-08-01T12:00:00Z",
         EndTime="2026-08-01T12:05:00Z", Period=300, Statistics=["Sum"]),
    call("read a log", "logs:FilterLogEvents", "{plan_logs}", NOBODY,
         "filter_log_events", logGroupName="{plan_logs_name}"),
    call("delete a log", "logs:DeleteLogGroup", "{machine_logs}", NOBODY,
         "delete_log_group", logGroupName="{machine_logs_name}"),
    call("make EKS's own log group", "logs:CreateLogGroup", f"{EKS_LOGS}:log-stream:", frozenset({"ClusterGuards"})),
    call("let EKS's own log group forget", "logs:PutRetentionPolicy", f"{EKS_LOGS}:log-stream:",
         frozenset({"ClusterGuards"})),
    call("let another log group forget", "logs:PutRetentionPolicy", "{plan_logs}:log-stream:", NOBODY),
    call("trace", "xray:PutTraceSegments", "*", STEPS | {"StateMachine"}),
)  # fmt: skip

SECRETS = (
    _secret("read the Hugging Face token", "specdecode/huggingface-token", frozenset({"staging"})),
    _secret("read a secret whose name begins the same", "specdecode/huggingface-token-trial", NOBODY),
    _secret("read another secret", "trial/database", NOBODY),
    call("list secrets", "secretsmanager:ListSecrets", "*", NOBODY, "list_secrets"),
    call("read a parameter of the account", "ssm:GetParameter", "arn:aws:ssm:{region}:{account}:parameter/trial",
         NOBODY, "get_parameter", Name="/trial"),
    call("read AWS's parameters (AMI ids)", "ssm:GetParameter",
         "arn:aws:ssm:{region}::parameter/aws/service/eks/trial", KARPENTER),
    call("decrypt by another key", "kms:Decrypt", "arn:aws:kms:{region}:{account}:key/trial", NOBODY),
)  # fmt: skip

RUNS = (
    call("start a run", "states:StartExecution", "{machine}", NOBODY,
         "start_execution", stateMachineArn="{machine}", name="trial", input="not JSON"),
    call("stop a run", "states:StopExecution", "{executions}:trial", frozenset({"RunGuards"}),
         "stop_execution", executionArn="{executions}:trial"),
    call("stop an execution of another machine", "states:StopExecution",
         "arn:aws:states:{region}:{account}:execution:trial:trial", NOBODY,
         "stop_execution", executionArn="arn:aws:states:{region}:{account}:execution:trial:trial"),
    call("look at a run", "states:DescribeExecution", "{executions}:trial", WATCHDOG,
         "describe_execution", executionArn="{executions}:trial"),
    call("list runs", "states:ListExecutions", "{machine}", BACKSTOP | {"ReleaseCapacity", "Watchdog", "RunGuards"},
         "list_executions", stateMachineArn="{machine}"),
    call("read a run's history", "states:GetExecutionHistory", "{executions}:trial", NOBODY,
         "get_execution_history", executionArn="{executions}:trial"),
    call("change the state machine", "states:UpdateStateMachine", "{machine}", NOBODY,
         "update_state_machine", stateMachineArn="{machine}", definition="not JSON"),
    call("call the function Plan", "lambda:InvokeFunction", "{plan_function}", frozenset({"StateMachine"}),
         "invoke", FunctionName="{plan_function_name}", InvocationType="DryRun"),
    call("call the watchdog", "lambda:InvokeFunction", "{watchdog_function}", frozenset({"RunGuards"}),
         "invoke", FunctionName="{watchdog_function_name}", InvocationType="DryRun"),
    call("change a function's code", "lambda:UpdateFunctionCode", "{plan_function}", NOBODY,
         "update_function_code", FunctionName="{plan_function_name}", ZipFile=b"trial", DryRun=True),
    call("stop the watchdog's schedule", "events:DisableRule",
         "arn:aws:events:{region}:{account}:rule/trial", NOBODY, "disable_rule", Name="trial"),
    call("write to the alerts", "sns:Publish", "{topic}", BACKSTOP, "publish", TopicArn="{topic}", Message="trial"),
    call("see who is told of alerts", "sns:ListSubscriptionsByTopic", "{topic}", frozenset({"Plan"}),
         "list_subscriptions_by_topic", TopicArn="{topic}"),
    call("read the alerts along", "sns:Subscribe", "{topic}", NOBODY,
         "subscribe", TopicArn="{topic}", Protocol="email", Endpoint="trial@example.invalid"),
    *(
        call(what, f"cloudformation:{action}", f"arn:aws:cloudformation:{{region}}:{{account}}:stack/{stack}/trial",
             frozenset(may), "describe_stacks" if action == "DescribeStacks" else "get_template", StackName=stack)
        for what, action, stack, may in (
            ("see how the pipeline's stack stands", "DescribeStacks", STACK, {"RunSettings"}),
            ("see how the cluster's stack stands", "DescribeStacks", CLUSTER_STACK, {"ClusterSettings"}),
            ("see how another stack stands", "DescribeStacks", "trial", ()),
            ("read the settings in the pipeline's template", "GetTemplate", STACK, {"RunSettings", "ClusterSettings"}),
            ("read another template", "GetTemplate", CLUSTER_STACK, ()),
        )
    ),
    call("delete a stack", "cloudformation:DeleteStack",
         "arn:aws:cloudformation:{region}:{account}:stack/trial/*", NOBODY, "delete_stack", StackName="trial"),
)  # fmt: skip


def _assume(what: str, place: str, may: frozenset[str] = NOBODY) -> Call:
    return call(f"become {what}", "sts:AssumeRole", f"{{{place}}}", may,
                "assume_role", RoleArn=f"{{{place}}}", RoleSessionName="trial")  # fmt: skip


def _pass(what: str, place: str, service: str, may: frozenset[str]) -> Call:
    return Call(
        what=f"pass {what} to {service}",
        action="iam:PassRole",
        resource=f"{{{place}}}",
        may=may,
        context={"iam:PassedToService": f"{service}.amazonaws.com"},
    )


ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"


def _policy(what: str, action: str, policy: str, may: frozenset[str]) -> Call:
    """Decided by policies alone: a call that were allowed would change what the next ones may."""
    return Call(what=what, action=action, resource="{karpenter_role}", may=may, context={"iam:PolicyARN": policy})


IDENTITIES = (
    _assume("a role that trusts the whole account", "open_role"),
    *(_assume(f"pods of `{name}`", f"{name}_role", frozenset(t)) for name, t in names.POD_ROLES.items()),
    _assume("what mounts for the benchmark's pod", "benchmark_role"),
    _assume("the function ReleaseCapacity", "release_role"),
    _assume("Karpenter", "karpenter_role"),
    _assume("a node", "node_role"),
    _pass("the node's role", "node_role", "ec2", KARPENTER),
    _pass("the node's role", "node_role", "lambda", NOBODY),
    _pass("Karpenter's role", "karpenter_role", "ec2", NOBODY),
    _pass("a function's role", "release_role", "lambda", NOBODY),
    call("create a role", "iam:CreateRole", "arn:aws:iam::{account}:role/trial", NOBODY,
         "create_role", RoleName="trial", AssumeRolePolicyDocument="not JSON"),
    call("give a role more", "iam:PutRolePolicy", "{benchmark_role}", NOBODY, "put_role_policy",
         RoleName="{benchmark_role_name}", PolicyName="trial", PolicyDocument="not JSON"),
    call("change who may be a role", "iam:UpdateAssumeRolePolicy", "{benchmark_role}", NOBODY,
         "update_assume_role_policy", RoleName="{benchmark_role_name}", PolicyDocument="not JSON"),
    call("see which policies Karpenter has", "iam:ListAttachedRolePolicies", "{karpenter_role}", BACKSTOP,
         "list_attached_role_policies", RoleName="{karpenter_role_name}"),
    _policy("keep Karpenter from launching", "iam:AttachRolePolicy", "{no_launch}", BACKSTOP),
    _policy("give Karpenter another policy", "iam:AttachRolePolicy", ADMINISTRATOR, NOBODY),
    _policy("let Karpenter launch again", "iam:DetachRolePolicy", "{no_launch}", BACKSTOP | {"RunGuards"}),
    _policy("take another policy from Karpenter", "iam:DetachRolePolicy", ADMINISTRATOR, NOBODY),
    call("make an access key", "iam:CreateAccessKey", "arn:aws:iam::{account}:user/trial", NOBODY,
         "create_access_key", UserName="trial"),
)  # fmt: skip

CLUSTER_ARN = "arn:aws:eks:{region}:{account}:cluster/specdecode"
INSTANCE = "arn:aws:ec2:{region}:{account}:instance/i-0123456789abcdef0"
OWNED = "kubernetes.io/cluster/specdecode"


def _ec2(what: str, action: str, side: str, *, pool: str | None, may: frozenset[str]) -> Call:
    tags = {f"aws:{side}Tag/{OWNED}": "owned", f"aws:{side}Tag/karpenter.sh/nodepool": pool} if pool else {}
    named = {"aws:RequestTag/eks:eks-cluster-name": "specdecode"} if pool and side == "Request" else {}
    return Call(what=what, action=action, resource=INSTANCE, may=may, context=tags | named)


MACHINES = (
    call("find the cluster", "eks:DescribeCluster", CLUSTER_ARN, KARPENTER, "describe_cluster", name="specdecode"),
    call("let somebody into the cluster", "eks:CreateAccessEntry", CLUSTER_ARN, NOBODY, "create_access_entry",
         clusterName="specdecode", principalArn="{benchmark_role}"),
    call("become the cluster's administrator", "eks:AssociateAccessPolicy",
         "arn:aws:eks:{region}:{account}:access-entry/specdecode/*", NOBODY, "associate_access_policy",
         clusterName="specdecode", principalArn="{benchmark_role}", policyArn="trial", accessScope={"type": "cluster"}),
    call("delete the cluster", "eks:DeleteCluster", CLUSTER_ARN, NOBODY, "delete_cluster", name="specdecode"),
    call("scale another group of nodes", "eks:UpdateNodegroupConfig",
         "arn:aws:eks:{region}:{account}:nodegroup/specdecode/trial/*", NOBODY,
         "update_nodegroup_config", clusterName="specdecode", nodegroupName="trial"),
    call("see subnets, as Lambda does for a function", "ec2:DescribeSubnets", "*",
         IN_VPC | GUARDS | KARPENTER, "describe_subnets"),
    Call(what="see subnets from a function's code", action="ec2:DescribeSubnets", resource="*", may=KARPENTER,
         context={"lambda:SourceFunctionArn": "arn:aws:lambda:us-east-2:111122223333:function:trial"}),
    call("see instances", "ec2:DescribeInstances", "*", KARPENTER | BACKSTOP, "describe_instances"),
    call("buy a Capacity Block", "ec2:PurchaseCapacityBlock", "*", NOBODY),
    call("open a security group", "ec2:AuthorizeSecurityGroupIngress",
         "arn:aws:ec2:{region}:{account}:security-group/sg-trial", NOBODY,
         "authorize_security_group_ingress", GroupId="sg-trial"),
    _ec2("launch an instance of this cluster", "ec2:RunInstances", "Request", pool="trn2", may=KARPENTER),
    _ec2("launch any other instance", "ec2:RunInstances", "Request", pool=None, may=NOBODY),
    *(
        _ec2(f"end an instance of the {pool} pool", "ec2:TerminateInstances", "Resource", pool=pool,
             may=KARPENTER | BACKSTOP)
        for pool in ("trn2", "staging")
    ),
    _ec2("end an instance of a pool of somebody else", "ec2:TerminateInstances", "Resource", pool="trial",
         may=KARPENTER),
    call("end any other instance", "ec2:TerminateInstances", INSTANCE, NOBODY,
         "terminate_instances", InstanceIds=["i-0123456789abcdef0"]),
    call("run a command on a node", "ssm:SendCommand", INSTANCE, NOBODY,
         "send_command", InstanceIds=["i-0123456789abcdef0"], DocumentName="AWS-RunShellScript"),
    call("take a message from Karpenter's queue", "sqs:ReceiveMessage", "{queue}", KARPENTER,
         "receive_message", QueueUrl="{queue_url}"),
    call("send Karpenter a message", "sqs:SendMessage", "{queue}", NOBODY,
         "send_message", QueueUrl="{queue_url}", MessageBody="trial"),
)  # fmt: skip

CALLS = (*OBJECTS, *TELEMETRY, *SECRETS, *RUNS, *IDENTITIES, *MACHINES)
"""All of them."""
