"""Requests that are held because their group has no server.

`requests` has the queue of them, `answer` what they are answered, `service` serves Envoy's
`ext_authz`.
"""
