"""Tokens that are written down: a CSV file as kube-apiserver's `--token-auth-file`."""

import csv
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from kilonova.local.auth.user import User


class StaticTokens:
    """A fixed table from tokens to users.

    Digests are compared, each in constant time: how long a look-up takes tells nothing of a
    token. Meant for a handful of tokens, all of which may be looked at.
    """

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = {_digest(token): user for token, user in users.items() if token}

    @classmethod
    def from_csv(cls, text: str) -> "StaticTokens":
        """Lines of `token,user,uid,"group1,group2"`; the groups may be left out.

        Raises ValueError for a line with less, naming the line and not its token.
        """
        users: dict[str, User] = {}
        for number, record in enumerate(csv.reader(text.splitlines()), 1):
            if not record:
                continue
            if len(record) < 3:
                raise ValueError(
                    f"line {number} must have at least 3 columns (token, user name, user uid), "
                    f"found {len(record)}"
                )
            groups = tuple(record[3].split(",")) if len(record) > 3 and record[3] else ()
            users[record[0]] = User(record[1], record[2], groups)
        return cls(users)

    def user(self, token: str) -> User | None:
        """Whose token it is; None if it is in no line."""
        wanted = _digest(token)
        for digest, user in self._users.items():
            if compare_digest(digest, wanted):
                return user
        return None


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
