"""What Kilonova writes about GPUs into objects of Kubernetes: annotations of nodes, pods and
metrics (`gpu.kilonova.dev/*`), and the devices of ResourceSlices.

`annotations` has the devices of a node and those assigned to a pod, `health` why a device is not
healthy, `metrics` what is measured, `mig_strategy` the MIG instances that a node should have in
stock, `slices` GPUs as DRA devices.
"""
