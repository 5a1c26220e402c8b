"""The controller of whole sets.

Keeps a set's revisions, says how many replicas there are and whose turn it is in an update,
deletes what belongs to replicas that there are no more, and tells how the set is. It says whose
turn it is in the status, `updateProgress.currentlyUpdating`, and nowhere else: the controller of
replicas reads it there.

- `desire`: which replicas there should be.
- `view`: how each replica is, as its pods show it.
- `updates`: whose turn it is.
- `status`: what is told of the set.
- `history`: keeps revisions.
- `removal`: deletes what is no longer wanted.
- `claims`: makes the claims of devices that all replicas share.
- `troubles`: what goes wrong in a round that goes on nevertheless.
- `watches`: which changes concern a set.
- `controller`: does all of that for a key.
"""
