"""Errors of model repositories: where, what is wrong, and how to fix it."""

from kilonova.artifacts.errors import ArtifactError
from kilonova.objectstore import (
    ChecksumMismatch,
    NotFound,
    ObjectStoreError,
    ObjectTooLarge,
    Unavailable,
)


class RepositoryError(ArtifactError):
    """A repository that cannot be used as it is."""

    reason = "InvalidRepository"


class RepositoryUnavailable(RepositoryError):
    """The place of the repository does not answer: it may succeed later."""

    reason = "RepositoryUnavailable"


class FileDamaged(RepositoryError):
    """A file does not have its checksum: in its place, or on its way."""

    reason = "ChecksumMismatch"


class NoSpace(RepositoryError):
    """The disk, or the limit of the download, is too small."""

    reason = "NoSpace"


def translate_store_error(error: ObjectStoreError) -> RepositoryError:
    """The error of repositories for one of an object store."""
    kind, fix = RepositoryError, error.fix
    if isinstance(error, Unavailable):
        kind = RepositoryUnavailable
    elif isinstance(error, ChecksumMismatch):
        kind = FileDamaged
    elif isinstance(error, NotFound):
        fix = fix or "correct the URL, or push the repository with `kilonova models push`"
    elif isinstance(error, ObjectTooLarge):
        fix = "check that it is the file that is meant"
    return kind(error.where, error.problem, fix)
