"""The verbs, for any kind: read, write, patch, delete, watch.

A verb takes a `Target` (which object of which kind) and works on the store; what is
particular to a kind is asked of its `Behavior`. Objects travel as plain JSON in the version
of the request, and are stored in one version per kind. Every write goes the same way:

    decode → schema (types, unknown fields, defaults) → metadata → kind's preparation →
    admission → validation → field ownership → store

Everything between reading the current entry and proposing the new one runs without giving
up the event loop, unless admission has to ask somebody; then the write is tried again
should the object have moved meanwhile.
"""
