"""Errors of a Kubernetes API as messages for the user of a command."""

from collections.abc import Generator
from contextlib import contextmanager

from kilonova.component.failure import CommandFailed
from kilonova.kube import ConfigError, ConnectionFailed, Forbidden, KubeError, Unauthorized


@contextmanager
def translate_cluster_errors(
    purpose: str = "work on", permission_hint: str = ""
) -> Generator[None]:
    """Raise `CommandFailed` for errors of the API; `permission_hint` names what is required."""
    try:
        yield
    except ConfigError as error:
        raise CommandFailed(f"no cluster to {purpose}: {error}") from error
    except ConnectionFailed as error:
        problem = f"the cluster does not answer: {error}"
        raise CommandFailed(f"{problem}; is it running? Run `kilonova doctor`") from error
    except Unauthorized as error:
        raise CommandFailed(f"authentication failed: {error.message}") from error
    except Forbidden as error:
        raise CommandFailed(f"permission denied: {error.message}{permission_hint}") from error
    except KubeError as error:
        raise CommandFailed(f"the request failed: {error}") from error
