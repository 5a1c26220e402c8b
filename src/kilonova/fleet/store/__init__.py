"""The store of a fleet: what its manager and its members exchange, and who leads.

- An **endpoint** specifies where the store is: a bucket, a directory, a namespace of an API server,
  or three of these, of which any two suffice. It may be changed while managers and members run.
- A **document** is what one writes for others: `kilonova.fleet.documents`. Writes are conditional.
- The **lease** elects the leader, and each leader **claims** an epoch before it decides anything.
- An **epoch** is one number: the **generation** of the store, which is higher for a store that
  replaces another, and the term of the leader in it.
- A member's **guard** refuses what was decided in an epoch lower than the highest it accepted.

`open_fleet_store` opens the documents, `FleetElection` runs a manager while it leads, `EpochGuard`
is for members, `EndpointSource` for both.
"""

from kilonova.fleet.store.election import FLEET_TIMING, FleetElection, FleetTerm
from kilonova.fleet.store.endpoint_source import EndpointSource
from kilonova.fleet.store.endpoints import KubernetesEndpoint, parse_endpoints
from kilonova.fleet.store.epoch_guard import (
    ApiEpochStore,
    EpochGuard,
    EpochRefused,
    EpochStore,
)
from kilonova.fleet.store.epochs import format_epoch
from kilonova.fleet.store.fleet_store import FleetStore, InvalidDocument, StoredDocument
from kilonova.fleet.store.store_factory import ConnectApi, connect_by_kubeconfig, open_fleet_store
from kilonova.fleet.store.takeover import StoreReplaced, reclaim_store

__all__ = [
    "FLEET_TIMING",
    "ApiEpochStore",
    "ConnectApi",
    "EndpointSource",
    "EpochGuard",
    "EpochRefused",
    "EpochStore",
    "FleetElection",
    "FleetStore",
    "FleetTerm",
    "InvalidDocument",
    "KubernetesEndpoint",
    "StoreReplaced",
    "StoredDocument",
    "connect_by_kubeconfig",
    "format_epoch",
    "open_fleet_store",
    "parse_endpoints",
    "reclaim_store",
]
