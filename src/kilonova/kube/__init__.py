"""Talking to Kubernetes, and controllers that do.

The same code runs against any Kubernetes and against the embedded API: below everything is a
**transport** that carries a request and brings back a reply, over HTTP or within the process.
A **client** turns transport into typed verbs. `connect()` makes one from a kubeconfig, or from
the service account of the pod.

A **resource** names a collection of the API (`pods`) and the type its objects are decoded to.
The type may be a **projection**: a Struct with only the fields that are used. The parser skips
the rest, so that a big object costs what its used fields cost. What is decoded so can not be
written back whole; hence there is no update, only `patch` and `apply`.

A **reflector** keeps a **store** equal to what the server has of a resource: it lists, watches,
resumes, and lists again when it must. The store holds objects by **key**, (namespace, name),
and by **index**: a named function from an object to the values under which it is found.
Handlers are told of each change as (old, new). Stores are for reading; nothing in them may be
changed.

A **controller** turns changes in stores into keys in a **queue**, and calls its reconcile
function for each key: at most one call per key at a time, again with growing delays while it
fails. The reconcile function looks at the stores, decides, and writes what differs. It is told
only which object, never what happened, so that missing an event cannot lead it astray.

A **manager** runs reflectors, servers and controllers of a process together: starts them,
knows when the caches are filled, lets controllers run only while an **election** makes this
process the leader, and stops everything in good order. A **supervisor** runs a component, a group
of parts, and builds and runs it again when one of them fails.

All of it lives in one event loop, without threads: between two awaits the world stands still.
"""

from kilonova.kube.access import Access, access_in_cluster, connect, find_access
from kilonova.kube.backoff import Backoff
from kilonova.kube.client import Client
from kilonova.kube.controller import Comparison, Controller, Reconcile, Result, Watch
from kilonova.kube.errors import (
    AlreadyExists,
    ApiStatusError,
    BadRequest,
    ConfigError,
    Conflict,
    ConnectionFailed,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from kilonova.kube.identity import Key
from kilonova.kube.inprocess import InProcessTransport
from kilonova.kube.instruments import UNMEASURED, Instruments
from kilonova.kube.manager import Manager, Part, PartFailed, Stoppable
from kilonova.kube.queue import Priority, Queue, QueueClosed
from kilonova.kube.reflector import Reflector
from kilonova.kube.resource import Resource, plain
from kilonova.kube.store import Handler, IndexValues, Store
from kilonova.kube.supervisor import ComponentHealth, Supervisor
from kilonova.kube.transport import Reply, Request, StreamReply, Transport
from kilonova.kube.verbs import Listing, PatchKind, Scale
from kilonova.kube.watch import Added, Bookmark, Deleted, Modified, WatchStream

__all__ = [
    "UNMEASURED",
    "Access",
    "Added",
    "AlreadyExists",
    "ApiStatusError",
    "Backoff",
    "BadRequest",
    "Bookmark",
    "Client",
    "Comparison",
    "ComponentHealth",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "Controller",
    "Deleted",
    "Expired",
    "Forbidden",
    "Handler",
    "InProcessTransport",
    "IndexValues",
    "Instruments",
    "Invalid",
    "Key",
    "KubeError",
    "Listing",
    "Manager",
    "Modified",
    "NotFound",
    "Part",
    "PartFailed",
    "PatchKind",
    "Priority",
    "Queue",
    "QueueClosed",
    "Reconcile",
    "Reflector",
    "Reply",
    "Request",
    "Resource",
    "Result",
    "Scale",
    "Stoppable",
    "Store",
    "StreamReply",
    "Supervisor",
    "TooManyRequests",
    "Transport",
    "Unauthorized",
    "Watch",
    "WatchStream",
    "access_in_cluster",
    "connect",
    "find_access",
    "plain",
]
