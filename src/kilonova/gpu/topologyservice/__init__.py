"""The GPUs of the whole cluster, to read: all of them, those of a node, and the best set for a
number of GPUs.

Answers come from memory. The `TopologyIndex` (`index`) keeps the encoded view of every node, and
encodes it again when the node, its pods or its claims have changed; `best_set` asks the scheduler's
own placement on the scheduler's own cache, inside of a trial that is rolled back. Nothing is
written, and nothing is reserved: between an answer and a pod, others may come first.

`handlers` is the HTTP API and `grpc` the same over gRPC; `assembly.build_topology_service` builds
both over one cache. Callers are authenticated and authorised by the API server of the cluster
(`authorization`).
"""
