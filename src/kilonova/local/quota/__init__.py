"""Resource arithmetic and quota usage, shared by quota admission and the quota controller.

`resource_lists` adds and formats ResourceLists (k8s.io/apiserver/pkg/quota/v1), `evaluators`
computes the usage of an object and matches quota scopes (pkg/quota/v1/evaluator/core).
"""
