"""API objects as the scheduler decodes them: only the fields that it uses.

One module per API group: `core_v1`, `resource_v1` (DRA), `storage_v1`, `pod_groups`. Field names
are those of Kubernetes, in snake case.
"""
