"""Queues: their forest, usage and limits, fair shares, and the order of pending gangs.

A queue **deserves** amounts of resources, may **borrow** beyond them, and never exceeds its
**limit**; usage counts in the queue and all its ancestors. `forest.build_queue_forest` builds the
queues from their specs, `ledger.Ledger` holds their usage, `fair_shares.compute_fair_shares`
divides the cluster, and `scheduling_queue.SchedulingQueue` pops the gang to schedule next.
"""
