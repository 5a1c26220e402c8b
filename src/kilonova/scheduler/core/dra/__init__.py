"""Dynamic Resource Allocation (DRA): device pools, claims, the allocator, and queue charges of
claims.

`claim_cache.ClaimCache` is the entry point: it counts how many pods fit by their claims. Its base
`claim_ledger.ClaimLedger` knows the allocations of all claims, **published** in the API or
**assumed** by the scheduler.
`inventory` holds the devices of ResourceSlices, `allocator` searches devices for claims and
`node_allocator` for those of several pods, `device_usage` counts devices, counters and consumable
capacity, `gpu_devices` knows which devices are GPUs that nodes list as well.
"""
