"""The verbs, for any kind (registry/generic/registry.Store of kube-apiserver).

A verb takes a `ResourceTarget` (which object of which kind) and works on the store; the kind's
`KindStrategy` adds what is specific to the kind. Objects are plain JSON in the version of the
request, and are stored in one version per kind. `writes` says in which order a write proceeds.
Options (`options`) are parsed before: a verb sees neither query nor headers.

Entry points: `create_object`, `update_object` (`writes`), `delete_object`, `delete_collection`
(`deletion`), `list_entries` (`lists`), `open_watch` (`watches`).
"""
