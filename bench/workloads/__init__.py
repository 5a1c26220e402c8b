"""The PodCliqueSet operator with one big set, and with many small idle ones.

One set of many two-pod replicas is created, scaled and deleted: on Kubernetes, where the operator
is a separate process and nodes are simulated; and on `kilonova up`, where it is part of the
cluster. The peer, on the same server and with the same nodes, is a process that creates and deletes
as many pods of the same spec by plain requests: no operator can be faster.
"""
