"""Rebalancing of MIG instances over many GPUs: what should move (`plan`), computed on arrays of
their states (`repack_state`). Pure."""
