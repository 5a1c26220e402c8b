"""Protobuf request bodies, as kubectl, kube-scheduler and other Go clients send them.

A body is the four bytes `k8s\\0` and an *envelope* (`runtime.Unknown`) that names apiVersion and
kind and carries the *message* of that kind. The messages' fields are known from a generated
*table*; `decode` gives the object as its JSON. Nothing is encoded here: replies are JSON.

Pure functions of their arguments. The table is read at the first body, the reader of a message
is made when that message first occurs; both stay for the life of the process.
"""

from kilonova.local.protobuf.envelope import decode

__all__ = ["decode"]
