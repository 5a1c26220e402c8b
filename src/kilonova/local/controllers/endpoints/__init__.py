"""Which pods are behind a Service: EndpointSlices, and the older Endpoints.

A *member* is a pod that a Service selects. An *endpoint* is a member with an address, as slices
list it. Slices hold at most a hundred endpoints, all with the same ports.
"""

from kilonova.local.controllers.endpoints.controller import endpoint_slice_parts
from kilonova.local.controllers.endpoints.legacy import endpoints_parts

__all__ = ["endpoint_slice_parts", "endpoints_parts"]
