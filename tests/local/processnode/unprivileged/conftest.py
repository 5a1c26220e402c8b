"""Clusters of unprivileged users, always stopped."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.local.processnode.unprivileged.ordinary_user import OrdinaryUser

NewUser = Callable[..., OrdinaryUser]


@pytest.fixture(scope="module")
def new_user() -> Iterator[NewUser]:
    """Creates users on machines that forbid some kinds of system calls."""
    # Not below pytest's directory, which other users cannot access.
    top = Path(tempfile.mkdtemp(prefix="kilonova-ordinary-"))
    top.chmod(0o755)
    users: list[OrdinaryUser] = []

    def make(*forbidden: str) -> OrdinaryUser:
        folder = top / str(len(users))
        folder.mkdir()
        users.append(OrdinaryUser(folder, forbidden))
        return users[-1]

    yield make
    for user in users:
        user.end()
    shutil.rmtree(top)
