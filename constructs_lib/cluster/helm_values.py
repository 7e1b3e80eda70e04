"""The values of each Helm chart that is installed, as typed models. A value without a field here cannot be set."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class HelmModel(BaseModel):
    """Unknown keys are errors. Helm itself would accept them and do nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KarpenterSettings(HelmModel):
    """`settings` of charts/karpenter/values.yaml, v1.14.1."""

    cluster_name: str
    interruption_queue: str
    node_overlay: bool

    def to_helm(self) -> dict[str, Any]:
        """As the chart reads it. The gates are read without `with`, so that `false` survives."""
        return {
            "clusterName": self.cluster_name,
            "interruptionQueue": self.interruption_queue,
            "featureGates": {
                "staticCapacity": True,
                "reservedCapacity": True,
                "nodeOverlay": self.node_overlay,
            },
        }


class KarpenterValues(HelmModel):
    """charts/karpenter/values.yaml, v1.14.1.

    `ignoreDRARequests` is left at its default, true: static NodePools launch nodes without looking at pods, and the
    chart's template would drop a boolean false (`{{- with }}`).
    """

    settings: KarpenterSettings
    service_account_annotations: dict[str, str] = Field(default_factory=dict)
    replicas: int = 2
    cpu: str = "1"
    memory: str = "1Gi"

    def to_helm(self) -> dict[str, Any]:
        """As the chart reads it."""
        size = {"cpu": self.cpu, "memory": self.memory}
        return {
            "replicas": self.replicas,
            "serviceAccount": {"name": "karpenter", "annotations": self.service_account_annotations},
            "controller": {"resources": {"requests": size, "limits": size}},
            "settings": self.settings.to_helm(),
        }


class NeuronValues(HelmModel):
    """values.yaml of neuron-helm-chart 1.10.0.

    The device plugin must be off beside the DRA driver: both on one node oversubscribe it silently. The node problem
    detector reboots nodes by itself and needs rights that nothing else here needs.
    """

    dra_driver: bool = True
    device_plugin: bool = False
    node_problem_detector: bool = False

    def to_helm(self) -> dict[str, Any]:
        """As the chart reads it."""
        return {
            "draDriver": {"enabled": self.dra_driver},
            "devicePlugin": {"enabled": self.device_plugin},
            "npd": {"enabled": self.node_problem_detector},
        }


class ObservabilityValues(HelmModel):
    """Configuration of amazon-cloudwatch-observability v6.6.0 (the chart of aws-observability/helm-charts).

    The agent runs on the host's network, so it reads the instance's metadata at hop limit 1. The Neuron and DCGM
    exporters are off: the first does not support nodes that use the Neuron DRA driver, the second is for NVIDIA.
    """

    container_insights: bool = True
    container_logs: bool = True
    application_signals: bool = False
    neuron_monitor: bool = False
    dcgm_exporter: bool = False

    def to_helm(self) -> dict[str, Any]:
        """As the add-on's configuration schema has it."""
        kubernetes = {
            "enhanced_container_insights": self.container_insights,
            "accelerated_compute_metrics": self.neuron_monitor or self.dcgm_exporter,
        }
        return {
            "containerInsights": {"enabled": self.container_insights},
            "containerLogs": {"enabled": self.container_logs},
            "applicationSignals": {"enabled": self.application_signals},
            "manager": {"applicationSignals": {"autoMonitor": {"monitorAllServices": self.application_signals}}},
            "neuronMonitor": {"enabled": self.neuron_monitor},
            "dcgmExporter": {"enabled": self.dcgm_exporter},
            "agent": {"config": {"logs": {"metrics_collected": {"kubernetes": kubernetes}}}},
        }
