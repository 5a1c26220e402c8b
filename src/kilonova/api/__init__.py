"""The API objects: one module per API group, and what every object has in common.

Types here are the wire format (camelCase on the wire, as msgspec Structs); this package does no
I/O. The CustomResourceDefinitions in `crds` are generated from them. `gpu` has what is written
about GPUs into objects of Kubernetes, `nodes` labels, taints and annotations of Nodes, `pods`
arithmetic and changes of pod specs, tolerations, and the workload of a pod.
"""
