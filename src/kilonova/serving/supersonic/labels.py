"""Labels as SuperSONIC has them, so that what selects them finds them."""

from typing import Literal

from kilonova.serving.monitoring.relabelling import APP_LABEL

_CHART = "supersonic"

Component = Literal["triton", "envoy", "metrics-collector"]


def build_labels(name: str) -> dict[str, str]:
    """Of all objects of an instance."""
    return {"app.kubernetes.io/name": _CHART, "app.kubernetes.io/instance": name}


def build_component_labels(name: str, component: Component) -> dict[str, str]:
    """Of the objects of a part of it."""
    return {**build_labels(name), "app.kubernetes.io/component": component}


def build_pod_labels(name: str, component: Component) -> dict[str, str]:
    """Of its pods, from which metrics get the label `app`."""
    return {**build_component_labels(name, component), APP_LABEL: _CHART}
