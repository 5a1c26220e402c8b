"""Who is asking, from a client certificate or a bearer token; and whether they may.

An `Authenticator` turns a request into a `User`, into nobody (None), or into a 401. It knows
client certificates whose chain TLS has verified, *static tokens* from a file, and *ServiceAccount
tokens*: signed by this server with a `SigningKey`, bound to an account (and perhaps to a pod, a
secret or a node), and good only while those exist.

What a user may do is asked at the `Gate`, of an `Authorizer` (`rbac`): it turns a request into an
`Action`, takes account of impersonation, and lets through or raises 403.

Synchronous and without I/O; one event loop. Tokens are never logged nor kept: what is
remembered of them is a digest.
"""

from kilonova.local.auth.authenticator import Authenticator, may_be_anonymous
from kilonova.local.auth.authorizer import Action, Authorizer, Verdict
from kilonova.local.auth.discovery import discovery_document, key_set
from kilonova.local.auth.gate import Gate
from kilonova.local.auth.keys import SigningKey
from kilonova.local.auth.static import StaticTokens
from kilonova.local.auth.tokens import (
    BoundObject,
    InvalidToken,
    IssuedToken,
    ServiceAccount,
    ServiceAccountTokens,
)
from kilonova.local.auth.user import MASTERS, User, user_info

__all__ = [
    "MASTERS",
    "Action",
    "Authenticator",
    "Authorizer",
    "BoundObject",
    "Gate",
    "InvalidToken",
    "IssuedToken",
    "ServiceAccount",
    "ServiceAccountTokens",
    "SigningKey",
    "StaticTokens",
    "User",
    "Verdict",
    "discovery_document",
    "key_set",
    "may_be_anonymous",
    "user_info",
]
