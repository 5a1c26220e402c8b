"""`kilonova gpu`: the GPUs of this machine (discover, topology, health), and of a cluster (list,
slices)."""
