"""The control plane of gateways: it configures Envoy, and is no hop of a request that flows.

Words:

- a **state** (`state`) is what the objects of a service report of its gateways: endpoints, Secrets,
  groups that start. `gateway.config` renders a configuration from it;
- a **publication** is a configuration that gateways are to have, as a **snapshot** of encoded
  resources; the **publisher** is the controller that makes it;
- a **connection** is the ADS stream of a gateway, whose **stream** decides what is sent next;
- a request is **held** when its group has no server: Envoy asks here, and the answer waits;
- an **answer** is given for the whole service, where that of one server would mislead.

`build_control_plane` builds it. `docs/internals/control-plane-of-gateways.md` explains why it is as
it is. gRPC and protobuf are loaded when there is a service: only `services` and what it imports
need them.
"""

from kilonova.serving.controlplane.assembly import ControlPlane, Timing, build_control_plane

__all__ = ["ControlPlane", "Timing", "build_control_plane"]
