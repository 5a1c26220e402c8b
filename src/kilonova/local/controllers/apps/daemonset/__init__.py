"""DaemonSets: a pod on every node that it fits."""
