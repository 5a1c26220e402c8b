"""Pods as JSON objects, for conversion tests."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.scheduler.objects.core_v1 import Pod


def wire_pod(
    spec: JsonObject,
    labels: dict[str, str] | None = None,
    name: str = "web-0",
    annotations: dict[str, str] | None = None,
) -> Pod:
    """A pod in namespace `ns`."""
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "labels": labels or {},
        "annotations": annotations or {},
    }
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)
