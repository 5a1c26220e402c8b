"""PodGangs, PodGroups (of Kubernetes and coscheduling) and single pods as gangs of `core`."""
