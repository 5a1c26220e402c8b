"""The store of a fleet: what its manager and its members tell each other, and who leads.

- An **endpoint** says where the store is: a bucket, a directory, a namespace of an API server, or
  three of these, of which any two suffice.
- A **document** is what one writes for others: `kilonova.fleet.documents`. Writes are conditional.

`open_fleet_store` is the entry point.
"""

from kilonova.fleet.store.endpoints import parse_endpoints
from kilonova.fleet.store.fleet_store import FleetStore, InvalidDocument, StoredDocument
from kilonova.fleet.store.opening import open_fleet_store

__all__ = [
    "FleetStore",
    "InvalidDocument",
    "StoredDocument",
    "open_fleet_store",
    "parse_endpoints",
]
