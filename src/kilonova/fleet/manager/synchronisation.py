"""Whether an object of the hub or the one saved in the store holds. Pure.

Objects are saved, so that the manager of another region can continue with its own hub. A hub that
was away may have former specs: each object says with an annotation which spec it and the store last
had in common. What changed since then holds; if both did, the hub of the leader, where people work.
"""

from typing import Literal

from kilonova.fleet.documents import SavedObject
from kilonova.fleet.manager.hub import SAVED_HASH, HubObject, encode_spec, hash_spec

Synchronisation = Literal["equal", "save", "restore", "update", "delete"]
"""`save`: to the store; `restore`, `update` and `delete`: on the hub."""


def compare(found: HubObject | None, saved: SavedObject | None) -> Synchronisation:
    """What to do with an object that exists on the hub, or in the store, or both."""
    if found is None:
        return "equal" if saved is None or saved.deleted else "restore"
    if saved is None:
        return "save"
    current = hash_spec(encode_spec(found))
    common = found.metadata.annotations.get(SAVED_HASH, "")
    if saved.deleted:
        # Another hub deleted it after this one had last seen it; or it is a new one of that name.
        return "delete" if current == common else "save"
    stored = hash_spec(saved.spec)
    if current == stored:
        return "equal"
    return "update" if current == common else "save"
