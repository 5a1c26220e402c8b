"""Clusters of ordinary users, ended surely."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.local.process.unprivileged.ordinary import OrdinaryUser

NewUser = Callable[..., OrdinaryUser]


@pytest.fixture(scope="module")
def new_user() -> Iterator[NewUser]:
    """Makes users on machines that forbid some kinds of things."""
    # Not of pytest, whose folders others may not reach.
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
