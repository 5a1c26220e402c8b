"""The embedded API compared with kube-apiserver + etcd, and the cost of our controller runtime.

Each family of rows has a module, and each measurement its own server, started on an empty
directory; one server runs at a time, on the same machine as the load generator. Both are accessed
over TLS with a client certificate, and both sync to disk before they acknowledge a write.
"""
