"""`kilonova snapshot`: `summary_text` formats a snapshot.

A **snapshot** is the scheduler's input as a value
(`kilonova.scheduler.library.snapshots.snapshot`); commands get one by
`kilonova.scheduler.snapshot_source`.
"""
