"""ReplicaSets and ReplicationControllers: a number of identical pods."""
