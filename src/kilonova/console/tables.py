"""Which tables the page gets, and from which objects.

A room that has a page of its own adds a `Table` to those given to `build_console`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kilonova.console.eventrows import event_row, last_seen
from kilonova.console.gangrows import clique_row, gang_row, set_row
from kilonova.console.noderows import node_row
from kilonova.console.objects import CLIQUES, EVENTS, GANGS, NODES, PODS, QUEUES, SETS
from kilonova.console.ownerrows import (
    DEPLOYMENTS,
    JOBS,
    STATEFUL_SETS,
    deployment_row,
    job_row,
    stateful_set_row,
)
from kilonova.console.podrows import pod_row
from kilonova.console.queuerows import queue_row
from kilonova.console.rows import Row
from kilonova.kube import Key, Resource

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """Rows of one kind of object.

    `row` must be quick: it runs in the event loop for each change that somebody sees. An object for
    which it raises is left out. With `age_of`, a page that comes gets only the objects for which it
    is greatest.
    """

    name: str
    resource: Resource[T]
    row: Callable[[T], Row]
    age_of: Callable[[T], float] | None = None
    """When an object was last of interest, in seconds since the epoch."""

    def id_of(self, key: Key) -> str:
        """The id of an object's row."""
        namespace, name = key
        return f"{namespace}/{name}" if self.resource.namespaced else name

    def key_of(self, id: str) -> Key:
        """The object of a row; `ValueError` for what cannot be an id."""
        namespace, _, name = id.rpartition("/")
        parts = (namespace, name) if self.resource.namespaced else (name,)
        # Nothing else may become part of a path on the API server.
        if "/".join(parts) != id or not all(map(_NAME.fullmatch, parts)):
            form = "NAMESPACE/NAME" if self.resource.namespaced else "NAME"
            raise ValueError(f"{id!r} is no id of {self.name}: want {form}")
        return namespace, name


TABLES: tuple[Table[Any], ...] = (
    Table("nodes", NODES, node_row),
    Table("pods", PODS, pod_row),
    Table("gangs", GANGS, gang_row),
    Table("sets", SETS, set_row),
    Table("cliques", CLIQUES, clique_row),
    Table("deployments", DEPLOYMENTS, deployment_row),
    Table("statefulsets", STATEFUL_SETS, stateful_set_row),
    Table("jobs", JOBS, job_row),
    Table("queues", QUEUES, queue_row),
    Table("events", EVENTS, event_row, age_of=last_seen),
)
"""What every console shows."""
