"""Kinds of the group apps: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision."""
