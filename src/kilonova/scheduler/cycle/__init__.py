"""The scheduling cycle: when gangs are scheduled, and how a new leader takes over.

A **cycle** schedules all due gangs, in the order of the scheduling queue. A gang is **due** unless
it is in backoff, or nothing changed since it was unschedulable. **Surplus pods** are those beyond a
gang's minimum.

Entry point: `scheduling_loop.SchedulingLoop`.
"""
