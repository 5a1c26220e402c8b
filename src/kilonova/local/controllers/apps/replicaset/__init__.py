"""ReplicaSets and ReplicationControllers: a number of equal pods."""
