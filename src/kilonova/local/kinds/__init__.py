"""The built-in kinds: what each has beside its schema.

Names, scope, verbs and schema of a built-in kind come from the generated tables. A module
here adds what those cannot say: defaults, rules, columns, field selectors. A kind without a
module is a plain object. Adding one is one file here and nothing else.
"""
