"""What the device plugin and the DRA driver of a node share.

Both give containers the devices that the scheduler chose, and the kubelet asks both over unix
sockets (`paths`, `sockets`); the kubelet's own APIs are in `grpc`, and its record of what pods have
in `pod_resources`.

- A **holding** (`holdings`) is what one holder has of the node's GPUs: a container of a pod, by the
  device plugin, or a ResourceClaim, by the DRA driver. Both keep them in one `HoldingStore`, so
  that neither gives away what the other gave, and find them again after a restart.
- `interfaces` is what they need of others: the inventory of the node, the MIG engine.
"""

from kilonova.gpu.kubelet.holdings import (
    HeldDevice,
    HolderKind,
    Holding,
    HoldingStore,
    find_conflict,
    open_holdings,
)
from kilonova.gpu.kubelet.interfaces import (
    AllocationRefused,
    InstanceProvider,
    InventoryFeed,
    InventorySource,
    NoMigEngine,
)
from kilonova.gpu.kubelet.paths import KubeletPaths

__all__ = [
    "AllocationRefused",
    "HeldDevice",
    "HolderKind",
    "Holding",
    "HoldingStore",
    "InstanceProvider",
    "InventoryFeed",
    "InventorySource",
    "KubeletPaths",
    "NoMigEngine",
    "find_conflict",
    "open_holdings",
]
