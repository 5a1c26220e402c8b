"""RBAC rules as data; the API server's authorizer evaluates them."""

import msgspec


class PolicyRuleFields(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The fields of a PolicyRule: verbs that are allowed on resources, or on paths."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
