"""The typed Kubernetes client, as client-go's rest and dynamic clients.

`Client` offers the verbs (get, list, watch, create, patch, apply, delete, bind, evict) over a
`Transport`; `Resource` specifies which collection and to which type it is decoded.
`config.client_config.connect` is the entry point.
"""
