"""The store that an endpoint names."""

from kilonova.fleet.store.endpoints import (
    DirectoryEndpoint,
    Endpoint,
    S3Endpoint,
    parse_endpoints,
)
from kilonova.fleet.store.fleet_store import FleetStore
from kilonova.objectstore import DirectoryStore, ObjectStore, S3Store, StoreNotUsable


def open_fleet_store(endpoint: str) -> FleetStore:
    """The store of an endpoint, or of three; `StoreNotUsable` if the text is invalid.

    Nothing is connected before the first call.
    """
    (single,) = parse_endpoints(endpoint)
    return FleetStore(_open_object_store(single))


def _open_object_store(endpoint: Endpoint) -> ObjectStore:
    if isinstance(endpoint, DirectoryEndpoint):
        return DirectoryStore(endpoint.path)
    if isinstance(endpoint, S3Endpoint):
        return S3Store(endpoint.settings)
    raise StoreNotUsable(str(endpoint), "not supported")
