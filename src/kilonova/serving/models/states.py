"""What is published of the models of a server, as annotations of its pod, and read from there."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from kilonova.api.serving import ModelStatus, ServerGroup, names
from kilonova.serving.resources import Pod

StateName = Literal["Loaded", "Loading", "Unloading", "Failed", "Waiting"]


class ModelState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A managed model on a server, or one that waits for a server."""

    state: StateName
    message: str = ""


def encode_annotations(
    loaded: Iterable[str], states: dict[str, ModelState], restarts: int
) -> dict[str, str]:
    """The annotations of a pod: the models that it gets requests for, and the managed ones.

    `restarts` is how often the server had restarted when it had those models."""
    return {
        names.LOADED_MODELS: msgspec.json.encode(sorted(loaded)).decode(),
        names.LOADED_RESTARTS: str(restarts),
        names.MODEL_STATES: msgspec.json.encode(states, order="sorted").decode(),
    }


def read_states(pod: Pod) -> dict[str, ModelState]:
    """The managed models of a pod."""
    try:
        text = pod.metadata.annotations.get(names.MODEL_STATES, "{}")
        return msgspec.json.decode(text, type=dict[str, ModelState])
    except msgspec.DecodeError:
        return {}


def read_loaded(pod: Pod) -> frozenset[str]:
    """The models that a pod gets requests for: none after a restart, until it is known what the
    server has now."""
    restarts = pod.metadata.annotations.get(names.LOADED_RESTARTS)
    if restarts is not None and restarts != str(count_restarts(pod)):
        return frozenset()
    try:
        text = pod.metadata.annotations.get(names.LOADED_MODELS, "[]")
        return frozenset(msgspec.json.decode(text, type=list[str]))
    except msgspec.DecodeError:
        return frozenset()


def count_restarts(pod: Pod) -> int:
    """How often containers of a pod have restarted."""
    return sum(each.restart_count for each in pod.status.container_statuses)


def summarize_models(group: ServerGroup, pods: Iterable[Pod]) -> tuple[ModelStatus, ...]:
    """The status of the managed models of a group, by the annotations of its pods."""
    if group.model_placement is None:
        return ()
    copies: Counter[str] = Counter()
    loading: Counter[str] = Counter()
    messages: dict[str, str] = {}
    for pod in sorted(pods, key=lambda each: each.metadata.name):
        if pod.metadata.deletion_timestamp is not None:
            continue
        if pod.is_ready:
            copies.update(read_loaded(pod))
        for name, found in read_states(pod).items():
            if found.state == "Loading":
                loading[name] += 1
            if found.message:
                where = f"{pod.metadata.name}: " if found.state == "Failed" else ""
                messages.setdefault(name, f"{where}{found.message}")
    return tuple(
        ModelStatus(each.name, copies[each.name], loading[each.name], messages.get(each.name, ""))
        for each in group.model_placement.models
    )
