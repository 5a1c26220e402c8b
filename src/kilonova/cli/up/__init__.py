"""The embedded cluster of this machine: `kilonova up`, `status` and `down`.

`foreground.run_cluster` runs a cluster in this process, `background.detach_cluster` in a new one
(`detached`). A **reporter** (`reporter`) receives the progress of a start; `components` are what
runs in the cluster besides its API; `status`, `down` and `wipe` work on its data directory.
"""
