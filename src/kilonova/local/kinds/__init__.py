"""The built-in kinds: what each has beside its schema.

Names, scope, verbs and schema of a built-in kind come from the generated tables. A module
here adds what those cannot say: defaults, rules, columns, field selectors. A kind without a
module is a plain object.

Adding one is one file here and nothing else: a subclass of `Strategy` under
`@strategy(group, kind)`, which overrides what differs. `fill` sets defaults, `problems` and
`validate_update` judge, `columns` and `selectable` are what `kubectl get` and field selectors
see. It finds the object in the form that Kubernetes' own structs would give it (`form`).
"""
