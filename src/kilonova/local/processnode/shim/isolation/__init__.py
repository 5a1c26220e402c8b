"""Isolation of containers, runc's job: namespaces, mounts, cgroups, the start of a process."""
