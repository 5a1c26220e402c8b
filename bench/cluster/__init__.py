"""A big cluster as a whole: thousands of simulated nodes with pods, and its idle cost.

Ours is one process, `kilonova up --nodes FILE`, with all controllers and nodes. The peer is
kube-apiserver, etcd and kube-controller-manager; its nodes are simulated by a separate process,
which is not counted.
"""
