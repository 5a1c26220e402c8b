"""The manager and the agent as processes of their own: `kilonova run fleet`, `kilonova run member`.

`kilonova nebula` is `kilonova run fleet`.
"""
