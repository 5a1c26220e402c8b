"""The status of a pod: phase, conditions, container statuses, and its writer."""
