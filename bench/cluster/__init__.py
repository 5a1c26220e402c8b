"""A big cluster, whole: thousands of simulated nodes with their pods, and what it costs at rest.

Ours is one process, `kilonova up --nodes FILE`, with all its controllers and the nodes in it. The
peer is kube-apiserver, etcd and kube-controller-manager; its nodes are played by a process of
ours, which is not counted.
"""

from bench.cluster.command import cluster

__all__ = ["cluster"]
