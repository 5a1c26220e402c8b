"""The values that decisions read: nodes, pod requests, gangs, labels, and the snapshot of placed
pods."""
