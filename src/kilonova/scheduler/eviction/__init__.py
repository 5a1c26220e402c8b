"""Evicts preemption victims and partial gangs; nominates nodes while victims terminate.

A **victim** is a pod evicted for another gang. Its capacity is nominated for that gang, whose pods
name the node in `status.nominatedNodeName`, so that the nomination survives a restart. A victim is
**overdue** when it still exists long after its `deletionTimestamp`. A **partial gang** has bound
pods but never reached its minimum.

Entry points: `victim_waiter.VictimWaiter.clear_victims`, `partial_gangs.PartialGangEvictor`.
"""
