"""Talking to Kubernetes: the client, informers and controller runtime of every component.

The same code runs against any Kubernetes and against the embedded API server. The layers follow
client-go and controller-runtime:

- A **transport** sends a request and returns the reply, over HTTP or within the process.
- A **client** offers typed verbs over a transport. `connect()` creates one from a kubeconfig, or
  from the service account of the pod.
- A **resource** names a collection of the API (`pods`) and the type its objects are decoded to. The
  type may be a **projection**: a Struct with only the fields that are used. The parser skips the
  others, so that a large object costs no more than its used fields. A projection cannot be written
  back whole; hence there is no update, only `patch` and `apply`.
- A **reflector** keeps a **store** equal to what the server has of a resource: it lists, watches,
  resumes, and lists again when it must. The store holds objects by **key**, (namespace, name), and
  by **index**: a named function from an object to the values it is found under. Event handlers are
  called for each change with (old, new). Objects in a store are read-only.
- A **controller** maps changes in stores to keys in a **work queue**, and calls its reconcile
  function for each key: at most one call per key at a time, with a growing delay while it fails.
  Reconcile reads the stores, decides, and writes what differs. It receives only the key, never the
  event, so that a missed event cannot mislead it.
- A **manager** runs the reflectors, servers and controllers of a process: it starts them, knows
  when the caches have synced, runs controllers only while **leader election** makes this process
  the leader, and stops everything in order. A **supervisor** runs a component (a group of
  runnables), and rebuilds and restarts it when one of them fails.

Everything runs in one event loop, without threads: state cannot change between two awaits.
"""

from kilonova.kube.client.client import Client
from kilonova.kube.client.config.client_config import (
    ClientConfig,
    connect,
    load_client_config,
    load_in_cluster_config,
)
from kilonova.kube.client.errors import (
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
from kilonova.kube.client.in_process_transport import InProcessTransport
from kilonova.kube.client.options import Listing, PatchType, Scale
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.kube.client.transport import Reply, Request, StreamReply, Transport
from kilonova.kube.client.watch import Added, Bookmark, Deleted, Modified, WatchStream
from kilonova.kube.controllers.controller import ChangeWatch, Controller, Reconcile, Result, Watch
from kilonova.kube.controllers.manager import GracefulRunnable, Manager, Runnable, RunnableFailed
from kilonova.kube.controllers.supervisor import ComponentHealth, Supervisor
from kilonova.kube.controllers.work_queue import Priority, WorkQueue, WorkQueueShutDown
from kilonova.kube.informers.object_keys import Key
from kilonova.kube.informers.reflector import Reflector
from kilonova.kube.informers.store import EventHandler, IndexFunc, Store
from kilonova.kube.observability.runtime_metrics import NO_RUNTIME_METRICS, RuntimeMetrics
from kilonova.kube.wait.backoff import Backoff

__all__ = [
    "NO_RUNTIME_METRICS",
    "Added",
    "AlreadyExists",
    "ApiStatusError",
    "Backoff",
    "BadRequest",
    "Bookmark",
    "ChangeWatch",
    "Client",
    "ClientConfig",
    "ComponentHealth",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "Controller",
    "Deleted",
    "EventHandler",
    "Expired",
    "Forbidden",
    "GracefulRunnable",
    "InProcessTransport",
    "IndexFunc",
    "Invalid",
    "Key",
    "KubeError",
    "Listing",
    "Manager",
    "Modified",
    "NotFound",
    "PatchType",
    "Priority",
    "Reconcile",
    "Reflector",
    "Reply",
    "Request",
    "Resource",
    "Result",
    "Runnable",
    "RunnableFailed",
    "RuntimeMetrics",
    "Scale",
    "Store",
    "StreamReply",
    "Supervisor",
    "TooManyRequests",
    "Transport",
    "Unauthorized",
    "Watch",
    "WatchStream",
    "WorkQueue",
    "WorkQueueShutDown",
    "connect",
    "load_client_config",
    "load_in_cluster_config",
    "unstructured_resource",
]
