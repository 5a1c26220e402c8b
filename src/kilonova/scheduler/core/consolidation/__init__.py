"""Migrations of running pods that free capacity for a pending gang or, without one, empty nodes.

`planner.plan_consolidation` is the entry point; `compaction` empties underused nodes. A
**migration** evicts pods of one gang and places them elsewhere in one step; a **migration budget**
limits how many there may be and how much work they may lose.
"""
