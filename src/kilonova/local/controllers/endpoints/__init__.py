"""EndpointSlices and the older Endpoints of Services.

A *selected pod* matches the selector of a Service. An *endpoint* is a selected pod with an address,
as slices list it. Slices hold at most a hundred endpoints, all with the same ports.
"""

from kilonova.local.controllers.endpoints.endpoints_controller import endpoints_controllers
from kilonova.local.controllers.endpoints.slice_controller import endpoint_slice_controllers

__all__ = ["endpoint_slice_controllers", "endpoints_controllers"]
