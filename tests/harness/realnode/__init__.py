"""A real node: kubelet, containerd and runc of the real parts, in namespaces of their own.

A node has its own mount, network, PID, UTS, IPC and cgroup namespaces, and needs root. Its network
is a pair of virtual interfaces to this machine; pods have addresses behind it, which this machine
reaches by a route. Nothing of it is outside of its folder and its cgroups.

- `node.RealNode` starts a node, and a control plane that it joins;
- `supervisor` is a process beside the test: it makes the namespaces, and removes what is left when
  the node, or the test run, has ended in whatever way;
- `init` is the first process in the namespaces: it mounts, and starts containerd and kubelet;
- `spec` is what both are told; `configuration` has the files of containerd, kubelet and the CNI
  plugins, `cgroups` and `network` the rest.

There is no kube-proxy and no DNS: cluster IPs of Services are not reachable, except that of the API
server, which listens on it. The API server itself finds the pods behind a Service, so that webhooks
work.
"""
