"""HorizontalPodAutoscalers as their controller sees them."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.quantity import quantity_from_json
from kilonova.kube import Resource

QuantityValue = str | int | float


class TargetReference(msgspec.Struct, frozen=True, rename="camel"):
    """The scaled object, or the object that a metric describes."""

    kind: str = ""
    name: str = ""
    api_version: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class MetricTarget(msgspec.Struct, frozen=True, rename="camel"):
    """The target value of a metric."""

    type: str = ""
    value: QuantityValue | None = None
    average_value: QuantityValue | None = None
    average_utilization: int | None = None


class MetricIdentifier(msgspec.Struct, frozen=True):
    """The name and the label selector of a metric."""

    name: str = ""
    selector: JsonObject | None = None


class ResourceSource(msgspec.Struct, frozen=True):
    """A resource used by pods, or by one of their containers."""

    name: str = ""
    target: MetricTarget = MetricTarget()
    container: str = ""


class MetricSource(msgspec.Struct, frozen=True, rename="camel"):
    """A metric of pods, of an object, or external."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()
    described_object: TargetReference = TargetReference()


class Metric(msgspec.Struct, frozen=True, rename="camel"):
    """One of the metrics of an autoscaler."""

    type: str = ""
    resource: ResourceSource | None = None
    container_resource: ResourceSource | None = None
    pods: MetricSource | None = None
    object: MetricSource | None = None
    external: MetricSource | None = None


class ScalingPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """The maximum change in a period."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class ScalingRules(msgspec.Struct, frozen=True, rename="camel"):
    """The rules of scaling in one direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: QuantityValue | None = None


class Behavior(msgspec.Struct, frozen=True, rename="camel"):
    """The rules of scaling up and down."""

    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()


class AutoscalerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of an autoscaler."""

    scale_target_ref: TargetReference = TargetReference()
    min_replicas: int = 1
    max_replicas: int = 1
    metrics: tuple[Metric, ...] = ()
    behavior: Behavior | None = None


class AutoscalerCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of an autoscaler."""

    type: str
    status: str
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class AutoscalerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of an autoscaler."""

    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    current_metrics: tuple[JsonObject, ...] | None = None
    conditions: tuple[AutoscalerCondition, ...] | None = None


class Autoscaler(msgspec.Struct):
    """A HorizontalPodAutoscaler."""

    metadata: Metadata
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()


AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, Autoscaler
)


def to_milli(amount: QuantityValue) -> int:
    """An amount in thousandths."""
    return quantity_from_json(amount).milli
