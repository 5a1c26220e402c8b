"""The controller of InferenceEngineDeployments. A key is a deployment.

- The **template** of a deployment is the spec that its instances are made from: its own, or that of
  the Release that it names (`template`).
- A **revision** is a template that was rolled out, kept as a ControllerRevision (`revisions`). An
  instance is **updated** if it was made from the current revision, else **outdated**.
- An instance is **available** if it has been ready for `minReadySeconds`, and **unallocatable** if
  its cluster has no place for it (`instance_state`).

`desire` decides what to write from a deployment and what exists of it: `rollout` which instances
are created and deleted, `status` what is reported. All of that is pure. `writer` and
`revision_writer` write what differs, and `controller` reads the caches.
"""
