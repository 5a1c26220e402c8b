"""The store that an endpoint names."""

from collections.abc import Callable
from importlib.util import find_spec

from kilonova.fleet.store.config_maps import ConfigMapStore
from kilonova.fleet.store.endpoints import (
    FLAG,
    DirectoryEndpoint,
    Endpoint,
    KubernetesEndpoint,
    S3Endpoint,
    parse_endpoints,
)
from kilonova.fleet.store.fleet_store import FleetStore
from kilonova.fleet.store.quorum import QuorumStore
from kilonova.kube.client.client import Client
from kilonova.kube.client.config.client_config import connect
from kilonova.kube.client.errors import ConfigError
from kilonova.kube.election import ApiLeaseStore
from kilonova.objectstore import DirectoryStore, ObjectStore, S3Store, StoreNotUsable

LEASE = "kilonova-fleet-manager"
"""The Lease of a store in the Kubernetes API."""

ConnectApi = Callable[[KubernetesEndpoint], Client]
"""A client for the API server of an endpoint; raises `ConfigError`."""


def connect_by_kubeconfig(endpoint: KubernetesEndpoint) -> Client:
    """A client for the context of the kubeconfig, by default that of the process."""
    return connect(endpoint.kubeconfig, endpoint.context or None, field_manager="kilonova-fleet")


def open_fleet_store(endpoint: str, connect_api: ConnectApi = connect_by_kubeconfig) -> FleetStore:
    """The store of an endpoint, or of three; `StoreNotUsable` if that is not possible.

    Sends no request yet.
    """
    endpoints = parse_endpoints(endpoint)
    first = endpoints[0]
    if len(endpoints) == 1 and isinstance(first, KubernetesEndpoint):
        # The election is visible as a Lease, as that of any other component.
        client = _connect(first, connect_api)
        objects = ConfigMapStore(client, first.namespace, str(first))
        return FleetStore(objects, ApiLeaseStore(client, LEASE, first.namespace))
    if len(endpoints) == 1:
        return FleetStore(_open_object_store(first, connect_api))
    one, two, three = (_open_object_store(each, connect_api) for each in endpoints)
    return FleetStore(QuorumStore((one, two, three)))


def _open_object_store(endpoint: Endpoint, connect_api: ConnectApi) -> ObjectStore:
    match endpoint:
        case DirectoryEndpoint():
            return DirectoryStore(endpoint.path)
        case S3Endpoint():
            if find_spec("boto3") is None:
                fix = "pip install 'kilonova[s3]'"
                raise StoreNotUsable(f"{FLAG} {endpoint}", "boto3 is not installed", fix)
            return S3Store(endpoint.settings)
        case KubernetesEndpoint():
            client = _connect(endpoint, connect_api)
            return ConfigMapStore(client, endpoint.namespace, str(endpoint))


def _connect(endpoint: KubernetesEndpoint, connect_api: ConnectApi) -> Client:
    try:
        return connect_api(endpoint)
    except ConfigError as error:
        problem = f"{error.where}: {error.problem}"
        raise StoreNotUsable(f"{FLAG} {endpoint}", problem, error.fix) from error
