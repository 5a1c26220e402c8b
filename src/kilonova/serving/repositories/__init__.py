"""Model repositories: where the models of servers come from.

- A **repository** is a folder with models. Its **layout** is Triton's, a folder for each model with
  versions in it, or that of Hugging Face, the files of a **snapshot** for each model (`ORG/MODEL`),
  or of one model alone.
- Its **manifest** is the file `SHA256SUMS` at its top, as `sha256sum` writes and checks it. An OCI
  artifact has a manifest of its own, whose digests take its place.
- A repository in a file system is mounted (`volumes`). One in an object store is **pulled** into a
  directory before the server starts, and **pushed** from one by those who publish models
  (`kilonova models`). A pull verifies every file, is continued when it is started again, and
  publishes whole models.
"""

from kilonova.serving.repositories.volumes import RepositoryVolumes, build_repository_volumes

__all__ = ["RepositoryVolumes", "build_repository_volumes"]
