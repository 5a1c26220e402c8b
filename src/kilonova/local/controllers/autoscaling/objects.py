"""HorizontalPodAutoscalers as their controller sees them."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.quantity import from_json
from kilonova.kube import Resource

Amount = str | int | float


class TargetReference(msgspec.Struct, frozen=True, rename="camel"):
    """What is scaled, or what a metric describes."""

    kind: str = ""
    name: str = ""
    api_version: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class Target(msgspec.Struct, frozen=True, rename="camel"):
    """What a metric should be."""

    type: str = ""
    value: Amount | None = None
    average_value: Amount | None = None
    average_utilization: int | None = None


class MetricIdentifier(msgspec.Struct, frozen=True):
    """Which metric; the selector, where there is one, chooses among those of a name."""

    name: str = ""
    selector: JsonObject | None = None


class ResourceSource(msgspec.Struct, frozen=True):
    """A resource that pods, or one of their containers, use."""

    name: str = ""
    target: Target = Target()
    container: str = ""


class MetricSource(msgspec.Struct, frozen=True, rename="camel"):
    """A metric of pods, of an object, or of neither."""

    metric: MetricIdentifier = MetricIdentifier()
    target: Target = Target()
    described_object: TargetReference = TargetReference()


class Metric(msgspec.Struct, frozen=True, rename="camel"):
    """One of the metrics that a number of replicas comes from."""

    type: str = ""
    resource: ResourceSource | None = None
    container_resource: ResourceSource | None = None
    pods: MetricSource | None = None
    object: MetricSource | None = None
    external: MetricSource | None = None


class Policy(msgspec.Struct, frozen=True, rename="camel"):
    """How much may change in a period."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class Rules(msgspec.Struct, frozen=True, rename="camel"):
    """How to go in one direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[Policy, ...] = ()
    tolerance: Amount | None = None


class Behavior(msgspec.Struct, frozen=True, rename="camel"):
    """How to go up and down."""

    scale_up: Rules = Rules()
    scale_down: Rules = Rules()


class AutoscalerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What to scale by what."""

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
    """How it goes."""

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


def milli(amount: Amount) -> int:
    """An amount in thousandths."""
    return from_json(amount).milli
