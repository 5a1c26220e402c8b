"""`kilonova run serving`: controllers, autoscaler and the control plane of gateways on any cluster.

It is a process of its own: the control plane of traffic must not restart with the operator.
"""
