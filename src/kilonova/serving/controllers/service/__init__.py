"""The controller of InferenceServices: from a service to its objects, and their state as status.

- `observed`: what exists of a service.
- `desire`: which objects there are to be; pure.
- `status`, `server_status`: the status, which says the truth about both; pure.
- `writer`: writes what differs; `controller` puts them together.
"""
