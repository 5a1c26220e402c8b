"""Scheduling end to end on a kube-apiserver: ours, kube-scheduler, and plain bindings.

Each of the three has its own server, on an empty directory, with the same nodes and pods, all
created before. Nodes are objects without kubelets. Measured is the time from the first to the last
binding, as observed by a watch of pods.
"""
