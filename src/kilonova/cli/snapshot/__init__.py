"""`kilonova snapshot`, and the snapshots that `why`, `plan` and `queues` work on.

A **snapshot** is the scheduler's input as a value (`kilonova.scheduler.library.snapshot`). `source`
captures it from a cluster or reads it from a file, `summary_text` formats it.
"""
