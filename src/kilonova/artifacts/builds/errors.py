"""Errors of builds."""

from kilonova.artifacts.errors import ArtifactError


class BuildError(ArtifactError):
    """A build that cannot be used."""

    reason = "BuildError"


class InvalidBuild(BuildError):
    """The build is damaged or contradictory. It stays so until it is published again."""

    reason = "InvalidBuild"


class BuildNotFound(BuildError):
    """The source has no such build."""

    reason = "BuildNotFound"


class BuildUnavailable(BuildError):
    """The source does not answer, or rejects the credentials: it may succeed later."""

    reason = "BuildUnavailable"
