"""The GPUs of a whole cluster, from its API: lists, rebalancing, and how both are printed."""
