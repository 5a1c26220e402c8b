"""What a cluster answers, in words for whoever gave the command."""

from collections.abc import Generator
from contextlib import contextmanager

from kilonova.cli.failure import CommandFailed
from kilonova.kube import ConfigError, ConnectionFailed, Forbidden, KubeError, Unauthorized


@contextmanager
def explained(purpose: str = "work", rights: str = "") -> Generator[None]:
    """Turn what a cluster refuses into `CommandFailed`; `rights` says what one must be able to."""
    try:
        yield
    except ConfigError as error:
        raise CommandFailed(f"no cluster to {purpose} on: {error}") from error
    except ConnectionFailed as error:
        known = f"the cluster does not answer: {error}"
        raise CommandFailed(f"{known}; is it running? `kilonova doctor` looks") from error
    except Unauthorized as error:
        raise CommandFailed(f"the cluster does not know who you are: {error.message}") from error
    except Forbidden as error:
        raise CommandFailed(f"a right is missing: {error.message}{rights}") from error
    except KubeError as error:
        raise CommandFailed(f"the cluster refused: {error}") from error
