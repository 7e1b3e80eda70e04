"""The control API, `/_rehearsal/…`, for CloudFormation's resource handlers and the rehearsal itself."""

from rehearsal.kubernetes import errors, nodes
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.identity import Authenticator, entry_of
from rehearsal.kubernetes.karpenter.cloud import Cloud, Ec2Instance
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.node.agent import NodeAgent
from rehearsal.kubernetes.node.loopback import PodNetwork
from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.software.addons import Addons
from rehearsal.kubernetes.software.charts import Charts
from rehearsal.kubernetes.software.installed import Installed


class Control:
    """Actions by name. An unknown name is a 404."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        authenticator: Authenticator,
        faults: Faults,
        installed: Installed,
        cloud: Cloud,
        agent: NodeAgent,
        network: PodNetwork,
    ) -> None:
        self._cluster = cluster
        self._authenticator = authenticator
        self._faults = faults
        self._charts = Charts(cluster, installed)
        self._addons = Addons(cluster, installed)
        self._installed = installed
        self._cloud = cloud
        self._agent = agent
        self._network = network

    async def __call__(self, action: str, body: Json) -> Json:
        try:
            return self._act(action, body)
        except KeyError as missing:
            raise errors.bad_request(f"/_rehearsal/{action}: {missing} is missing") from None

    def _act(self, action: str, body: Json) -> Json:
        match action:
            case "helm":
                return self._charts.handle(body)
            case "addon":
                return self._addons.handle(body)
            case "access-entry":
                return self._access_entry(body)
            case "faults":
                return self._faults.set(body)
            case "kill":
                return self._kill(body)
            case "evict":
                return self._evict(body)
            case "cut":
                return self._cut(body)
            case "vanish":
                return self._vanish(body)
            case "join":
                return self._join(body)
            case "leave":
                return self._leave(body)
            case "instances":
                return {"instances": [self._instance(i) for i in self._cloud.instances.values()]}
        raise errors.no_such_path()

    def _access_entry(self, body: Json) -> Json:
        if body["request"] == "Delete":
            self._authenticator.entries.pop(body["principal_arn"], None)
        else:
            self._authenticator.entries[body["principal_arn"]] = entry_of(body)
        return {"principal_arn": body["principal_arn"]}

    def _kill(self, body: Json) -> Json:
        """`{namespace, pod, container?, reason?}`: SIGKILL. With reason OOMKilled the status looks as if the kernel had
        killed it.
        """
        pod = self._cluster.store.require(r.PODS, body["namespace"], body["pod"])
        self._agent.kill(pod, body.get("container", ""), body.get("reason", "Error"))
        return {}

    def _evict(self, body: Json) -> Json:
        """`{namespace, pod}`: the kubelet ends the pod because the local disk is full, and forgets its containers."""
        self._agent.evict(self._cluster.store.require(r.PODS, body["namespace"], body["pod"]))
        return {}

    def _cut(self, body: Json) -> Json:
        """`{node, since?}`: cut the node off from the network. Its processes go on until `vanish`."""
        node = self._cluster.store.require(r.NODES, "", body["node"])
        self._agent.cut(node, since=body.get("since"))
        return {}

    def _vanish(self, body: Json) -> Json:
        """`{node}`: the instance is gone without notice, as after a hardware failure."""
        node = self._cluster.store.require(r.NODES, "", body["node"])
        self._cloud.terminate(node["spec"]["providerID"])
        self._cluster.store.remove(r.NODES, "", body["node"])
        return {}

    def _join(self, body: Json) -> Json:
        """`{instance_id, instance_type, labels, taints, ephemeral}`: a node group's instance becomes a node."""
        zone, address = f"{self._cloud.region}a", self._network.next_address()
        node = nodes.build(
            name=f"ip-{address.replace('.', '-')}.{self._cloud.region}.compute.internal",
            instance_type=body["instance_type"],
            zone=zone,
            address=address,
            labels=body["labels"],
            taints=body["taints"],
            ephemeral=body["ephemeral"],
            provider_id=f"aws:///{zone}/{body['instance_id']}",
        )
        self._cluster.store.create(r.NODES, node)
        return {"node": node["metadata"]["name"]}

    def _leave(self, body: Json) -> Json:
        """`{node}`: its instance has ended."""
        if self._cluster.store.get(r.NODES, "", body["node"]) is not None:
            self._cluster.store.remove(r.NODES, "", body["node"])
        return {}

    def _instance(self, instance: Ec2Instance) -> Json:
        """An instance. `leaked`: it runs, and no NodeClaim or no Karpenter is left that could end it."""
        claim = None
        if self._cluster.registry.of_kind("karpenter.sh/v1", "NodeClaim"):
            claim = self._cluster.store.get(r.NODE_CLAIMS, "", instance.node_claim)
        kept = claim is not None and self._installed.karpenter is not None
        return {**vars(instance), "leaked": not instance.terminated and not kept}
