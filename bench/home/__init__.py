"""The embedded API beside kube-apiserver + etcd, and the cost of our controller runtime.

Each family of rows has a module, and each measurement a server of its own, started on an
empty folder; one server runs at a time, on the machine that the load generator uses too.
Both are reached over TLS with a client certificate, and both wait for the disk before they
acknowledge a write.
"""

from bench.home.command import home

__all__ = ["home"]
