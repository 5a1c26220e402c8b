"""The pods of a Job: `claims` adopts and releases them, `counts` and `failures` record what became
of them, `plan` decides how many to create and delete, `control` does it, and `tracking` counts
those that have finished."""
