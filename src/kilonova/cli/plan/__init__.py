"""`kilonova plan`: where the pods of manifests would be placed, without writing anything.

`manifests` reads files, `manifest_expansion` **expands** them to the pods and gangs that
controllers would create, and `planner.plan_manifests` schedules those on a snapshot of the cluster.
"""
