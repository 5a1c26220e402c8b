"""The controller of whole PodCliqueSets.

It stores a set's revisions, decides how many replicas there are and which of them are updated,
deletes objects of surplus replicas, and writes the set's status. Which replicas are updated is
published in the status, `updateProgress.currentlyUpdating`, where the controllers of replicas and
cliques read it.

- `controller`: the reconciler and entry point, `build_set_controller`.
- `event_handlers`: the watches.
- `replica_state`: the state of each replica, computed from its pods.
- `updates`: which replicas are updated.
- `status`: the set's status.
- `revision_history`: ControllerRevisions.
- `deletion`: deletes surplus objects.
- `shared_claims`: claims that all replicas share.
- `reconcile_errors`: errors of a reconcile that continues after them.
"""
