"""`kilonova up --clusters N`: several clusters on this machine, as the members of a fleet.

Each cluster is a process of its own with a data directory of its own, so that one can be killed,
and started again, without the others. `ClustersDirectory` is what they share: which clusters there
are, their store, and a kubeconfig with a context for each.
"""
