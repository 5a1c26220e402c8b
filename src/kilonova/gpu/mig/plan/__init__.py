"""Which steps bring a device from its MIG instances to those of its target. Pure.

`planner` plans a device in **steps** (`steps`), `protected_plan` around what is reserved and in
use. `stock` computes how many instances are made in advance, `demand` for which profiles;
`occupancy` has the slices that instances occupy.
"""
