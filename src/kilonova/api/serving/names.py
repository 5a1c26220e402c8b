"""Names, labels, annotations and event reasons of inference services.

Names are built here and never parsed: labels identify what an object belongs to.
"""

from typing import Literal

MANAGER = "kilonova-serving"
"""The value of `app.kubernetes.io/managed-by` on all objects that the controllers create."""

_PREFIX = "serving.kilonova.dev/"
SERVICE = _PREFIX + "inference-service"
"""Label of every object of a service: its name."""
SERVER = _PREFIX + "server"
"""Label of the objects and pods of a group of servers: its name."""
ROLE = _PREFIX + "role"
"""Label of a pod: `server` or `gateway`."""
LOADED_MODELS = _PREFIX + "loaded-models"
"""Annotation of a pod of a server: the models that it has loaded, as a JSON list."""
MODEL_STATES = _PREFIX + "model-states"
"""Annotation of a pod of a server: the managed models that it has, loads, or cannot load, as a JSON
object from names to a state and a message."""
LOADED_RESTARTS = _PREFIX + "loaded-restarts"
"""Annotation of a pod of a server: how often it had restarted when it had loaded those models. A
server that has restarted since has none of them."""
ENTRY = _PREFIX + "entry"
"""Label of a pod that gets requests: `true`."""
CONFIG_HASH = _PREFIX + "config-hash"
"""Annotation of a gateway's pod: the hash of what Envoy reads when it starts."""
APPLIED_HASH = _PREFIX + "applied-hash"
"""Annotation of an object: the hash of what it was written from."""
SERVICE_CONFIG = _PREFIX + "service-config"
"""Label of a ConfigMap that holds a service: `true` in the namespaced mode, `cluster` if the
installation of the cluster is to create its InferenceService."""
NAMESPACED = "true"
OF_CLUSTER = "cluster"
SERVICE_STATUS = _PREFIX + "status"
"""Annotation of such a ConfigMap: the status of the service, in JSON."""
SERVICE_CONVERSION = _PREFIX + "conversion"
"""Annotation of such a ConfigMap: what of it was refused or has no effect, as a JSON object with
lists of `problems` and `warnings`."""

Role = Literal["server", "gateway"]

SERVER_CONTAINER = "server"
GATEWAY_CONTAINER = "envoy"


def build_server_set(service: str, group: str) -> str:
    """The PodCliqueSet (or Deployment) of a group of servers."""
    return f"{service}-{group}"


def build_gateway(service: str) -> str:
    """The Deployment of the gateways, their ConfigMap and Secret."""
    return f"{service}-gateway"


def build_gateway_service(service: str) -> str:
    """The Service of the gateways: the name by which clients know the service."""
    return service


def build_server_service(service: str, group: str) -> str:
    """The headless Service of a group of servers."""
    return f"{service}-{group}-servers"


def build_dashboards(service: str) -> str:
    """The ConfigMap with the dashboards of a service."""
    return f"{service}-dashboards"
