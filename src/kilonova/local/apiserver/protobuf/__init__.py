r"""Decoding of protobuf request bodies, as kubectl, kube-scheduler and other Go clients send them.

A body is the four bytes `k8s\0` and an *envelope* (`runtime.Unknown`) that contains apiVersion,
kind and the *message* of that kind. The fields of messages come from a generated *table*;
`decode_object`, the entry point, returns the object as JSON. Nothing is encoded: responses are
JSON.

All functions are pure. The table is loaded at the first body, the reader of a message is compiled
at its first use; both are cached for the life of the process.
"""

from kilonova.local.apiserver.protobuf.envelope import decode_object

__all__ = ["decode_object"]
