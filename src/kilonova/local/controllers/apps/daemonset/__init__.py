"""DaemonSets: a pod on every matching node."""
