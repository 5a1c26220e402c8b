"""The GPUs of a node: layout and links, and which devices, fractions or MIG instances a pod gets.

`selection.select_devices` selects the GPU indices of a pod on one node;
`assignment.make_placements` applies it to the pods of a gang. A **layout** (`layout`) describes the
GPUs of a node; a **device set** (`device_sets`) is a bit mask of GPUs, for all of which scores are
precomputed. `mig` selects where MIG instances are placed on a device; `rebalancing` selects which
of them should be elsewhere.
"""
