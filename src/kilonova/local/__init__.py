"""The embedded cluster: a Kubernetes API server on SQLite, controllers and nodes, in one process.

- `apiserver` is kube-apiserver: a request flows connection → request info → authentication →
  authorization → negotiation → registry → storage, and an event flows back storage → watch cache →
  negotiation. The order of a write is in `apiserver.registry`.
- `controllers` are those of kube-controller-manager.
- `simnodes` are simulated nodes; `processnode` is this machine as a node, whose pods are processes.
- `apimachinery`, `quota` and `kubelet_api` are shared by them.

`cluster.Cluster` assembles them and is the entry point.
"""
