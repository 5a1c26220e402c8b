"""What commands share: `kilonova NAME`, also those that components register.

`flags` are flags of commands that read a cluster, `cluster_selection` finds the cluster that they
select, `name_completion` completes names of its objects, `output` prints tables, JSON and YAML.
A command's module imports nothing heavy: Typer, and what it needs when it runs.
"""
