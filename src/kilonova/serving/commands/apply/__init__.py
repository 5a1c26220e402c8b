"""`kilonova serve -f`: from files to services that answer.

`manifests` reads files, SuperSONIC's values files among them; `rollout` applies the objects and
waits; `client_examples` shows how a service is called.
"""
