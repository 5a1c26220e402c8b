"""API objects and rules that several parts of the embedded cluster share.

Projections of Pods and Nodes (`core`) and their indexes, matching of tolerations and node
selectors, QoS classes, the taint of nodes that pull no images, fields of RBAC rules, and the
acceptance of CustomResourceDefinition names. Pure: neither clients nor clocks.
"""
