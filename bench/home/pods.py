"""The pods that are created: of realistic and of minimal size.

No scheduler acts on them: only the API is measured.
"""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject

_SCHEDULER = "nobody"


def build_realistic_pod(**metadata: Any) -> JsonObject:
    """A serving pod, about 3 KB once it is stored with its defaults and managed fields."""
    environment = [{"name": f"SETTING_{number}", "value": "value"} for number in range(12)]
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5}
    container = {
        "name": "main",
        "image": "example.org/serve:1",
        "command": ["python", "-m", "serve"],
        "args": ["--port", "8000"],
        "env": environment,
        "ports": [{"containerPort": 8000, "name": "http"}],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi"},
            "limits": {"nvidia.com/gpu": "1"},
        },
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        "readinessProbe": probe,
    }
    labels = {"app": "serve", "grove.io/podclique": "decode", "role": "decode"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels, "annotations": {"example.org/note": "x" * 200}, **metadata},
        "spec": {
            "schedulerName": _SCHEDULER,
            "containers": [container],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "nodeSelector": {"example.org/pool": "gpu"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
    }


def build_minimal_pod(node: str = "", **metadata: Any) -> JsonObject:
    """The smallest pod that is accepted."""
    spec: JsonObject = {
        "schedulerName": _SCHEDULER,
        "containers": [{"name": "main", "image": "example.org/serve:1"}],
    }
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def encode_pod(pod: JsonObject) -> bytes:
    """A pod as the body of a request."""
    return msgspec.json.encode(pod)
