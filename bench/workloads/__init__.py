"""The operator of PodCliqueSets at work on one big set, and at rest beside many small ones.

One set of many two-pod replicas is made, scaled and deleted: on Kubernetes, where the operator is
a process of its own and others of ours play the nodes; and on `kilonova up`, where it is part of
the cluster. Beside it, on the same server and with the same nodes, a process creates and deletes
as many pods of the same spec by plain requests: no operator can be faster.
"""

from bench.workloads.command import workloads

__all__ = ["workloads"]
