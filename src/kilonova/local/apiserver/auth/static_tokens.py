"""Static tokens: a CSV file as kube-apiserver's `--token-auth-file`."""

import csv
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from kilonova.local.apiserver.auth.user import User


class StaticTokens:
    """A fixed table from tokens to users.

    Digests are compared, each in constant time: the duration of a look-up reveals nothing about a
    token. Meant for a handful of tokens, all of which are compared.
    """

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = {_digest(token): user for token, user in users.items() if token}

    @classmethod
    def from_csv(cls, text: str) -> "StaticTokens":
        """Parse lines of `token,user,uid,"group1,group2"`; the groups are optional.

        Raises ValueError for an incomplete line, naming the line and not its token.
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

    def find_user(self, token: str) -> User | None:
        """The user of a token; None if it is unknown."""
        expected_digest = _digest(token)
        for digest, user in self._users.items():
            if compare_digest(digest, expected_digest):
                return user
        return None


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
