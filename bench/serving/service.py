"""A service on `kilonova up`: real servers and a real gateway, as processes of this machine."""

from typing import Any

from bench.serving.load import Destination

NAME = "bench"
MODEL = "slow"
_REQUEST = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1.0]}]}


def build_service(autoscaling: dict[str, Any] | None = None, *options: str) -> dict[str, Any]:
    """A service of a model that takes its time without using a core for it."""
    group: dict[str, Any] = {
        "name": "main",
        "runtime": "ModelServer",
        "protocol": "V2",
        "args": ["--model", ",".join((MODEL, *options))],
        "drain": "1s",
    }
    if autoscaling is not None:
        group["autoscaling"] = autoscaling
    return {"metadata": {"name": NAME}, "spec": {"servers": [group]}}


def build_destination(status: Any) -> Destination:
    """Requests of the service over HTTP. No server is asked what they are."""
    return Destination(url=status["url"], model=MODEL, bodies=(_REQUEST,))
