"""Artifacts in an OCI registry: what is pushed as a manifest with blobs, and pulled by tag or
digest.

- A **repository** of a registry has **blobs**, each named by the SHA-256 of its content (its
  digest), and **manifests**, which list the blobs of an artifact. A **tag** names a manifest, and
  may be moved to another one; a digest names one content for ever.
- Content that is not its digest is never returned.

`location` specifies which repository; `credentials` finds the user of a registry where docker keeps
it; `authorization` answers the registry's challenges, Basic and Bearer; `repository` pulls and
pushes.
"""
