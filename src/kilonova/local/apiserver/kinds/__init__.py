"""The strategies of the built-in kinds (`rest.RESTCreateStrategy` and its like in Kubernetes).

Names, scope, verbs and schema of a built-in kind come from generated tables. A module here adds
what the tables do not contain: defaults, validation, printer columns, selectable fields. A kind
without a module is a plain object.

To add one, add a module: a subclass of `BuiltinStrategy` (`strategy`), decorated with
`@register_strategy(group, kind)`, that overrides what differs. `set_defaults` sets defaults,
`validate_fields` and `validate_update` validate, `columns` and `selectable_fields` serve `kubectl
get` and field selectors. Objects passed to it are normalized: they have the form that decoding into
Kubernetes' Go structs gives them (`normalization`). The entry point is `builtin_kinds` (`builtin`).
"""
