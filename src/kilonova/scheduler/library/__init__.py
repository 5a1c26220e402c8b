"""Cluster snapshots and what other packages compute from them: replay, what-if, reports.

A `ClusterSnapshot` is everything a decision depends on, as a value. `snapshots` takes, saves and
loads one. `decisions.replay_snapshot` schedules its pending gangs, `what_if.what_if` additional
ones, `copies.count_copies` as many copies of one as fit; `placement_report` explains one gang or
pod, `consolidation_proposal` proposes migrations, `summary` and `queue_views` describe it.
"""
