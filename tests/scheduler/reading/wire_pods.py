"""Pods as the API writes them, for tests of reading."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.scheduler.objects import Pod


def wire_pod(spec: JsonObject, labels: dict[str, str] | None = None, name: str = "web-0") -> Pod:
    """A pod of namespace `ns`."""
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "labels": labels or {},
    }
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)
