"""Other rules for a picture: a file of those that differ, as people write it."""

from dataclasses import fields, replace
from typing import cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.picture import Picture

_WEIGHTS = "weights"


def by_policy(picture: Picture, text: bytes) -> Picture:
    """A picture that is decided about by other rules; those that the text does not name stay.

    `ValueError` says which field is wrong.
    """
    try:
        said = msgspec.yaml.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"is no YAML: {error}") from error
    if not isinstance(said, dict):
        raise ValueError("is no policy: write fields with their values, as `evicts: false`")
    given = cast(JsonObject, said)
    known = [field.name for field in fields(Policy)]
    for name in given:
        if name not in (*known, _WEIGHTS):
            raise ValueError(f"{name}: there is no such field, but {', '.join(known)}, {_WEIGHTS}")
    weights = given.pop(_WEIGHTS, {})
    try:
        policy = msgspec.convert({**msgspec.to_builtins(picture.policy), **given}, Policy)
        more = msgspec.convert(weights, dict[str, float])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    changed = replace(picture, policy=policy, weights={**picture.weights, **more})
    changed.scoring()
    return changed
