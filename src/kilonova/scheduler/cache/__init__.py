"""The scheduler cache: cluster state from the informers, and pods assumed by decisions.

`SchedulerCache` (as kube-scheduler's internal/cache) keeps core's `Cluster` up to date;
`SnapshotUpdater` applies informer events, `PlacedPods`, `AssumedPods` and `VictimCache` count pods.
`GangCache` derives which gangs are pending, not schedulable, or partial. A gang is **dirty** after
an event that concerns it, and is read again at the next refresh. A pod is **assumed** from the
decision until the informers show its binding, and **terminating** from its eviction until it is
deleted.

Entry points: `scheduler_cache.SchedulerCache`, `assembly.CacheSubsystem`.
"""
