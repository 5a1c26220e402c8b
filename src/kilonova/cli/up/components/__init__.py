"""Components in the cluster of `kilonova up`.

`selection` decides which run, `assembly` builds a cluster with them from their registrations,
`states` tracks whether each is off, starting, running or degraded. `console` is the console's part.
"""
