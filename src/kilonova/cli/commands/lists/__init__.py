"""Commands that list objects of a cluster: `kilonova gangs`, `nodes`, `queues`, `workloads`.

What a list shows, and how it follows the cluster, is in `cli.lists`.
"""
