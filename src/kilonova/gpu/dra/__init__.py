"""The DRA driver: a node's GPUs for ResourceClaims.

- The node's devices are published as ResourceSlices (`resource_slices`, pure; `slice_publisher`):
  whole GPUs, and every MIG instance that could exist, with the counters that they share, as
  NVIDIA's driver publishes them; in addition NVLink, NUMA and NVLink domain (`attributes`).
- A scheduler allocates devices to a claim. The kubelet then asks this driver (`driver`) to
  **prepare** the claim: its MIG instances are made, sharing is set up as the claim's **opaque
  configuration** says (`configs`), and a CDI spec is written for each of its requests (`preparer`).
"""

from kilonova.gpu.dra.configs import Sharing
from kilonova.gpu.dra.driver import DEFAULT_DRIVER, DraDriver
from kilonova.gpu.dra.preparer import ClaimPreparer, ClaimSharing
from kilonova.gpu.dra.resource_slices import (
    SliceFeatures,
    build_device_classes,
    build_resource_slices,
    list_pool_devices,
)
from kilonova.gpu.dra.sharing import NodeClaimSharing
from kilonova.gpu.dra.slice_publisher import SlicePublisher

__all__ = [
    "DEFAULT_DRIVER",
    "ClaimPreparer",
    "ClaimSharing",
    "DraDriver",
    "NodeClaimSharing",
    "Sharing",
    "SliceFeatures",
    "SlicePublisher",
    "build_device_classes",
    "build_resource_slices",
    "list_pool_devices",
]
