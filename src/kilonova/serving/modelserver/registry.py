"""The models of a server by name: loading, unloading, their states.

One change of a model happens at a time. A model that is loaded again is replaced once the new one
is there; the old one finishes its requests. Requests for a model that is being unloaded, or whose
server stops, are refused; those in flight are finished first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.modelserver.errors import ErrorKind, InferenceFailed, ModelLoadFailed
from kilonova.serving.modelserver.execution.in_flight import InFlight
from kilonova.serving.modelserver.execution.statistics import ModelStatistics
from kilonova.serving.modelserver.models.spec import ModelSpec

State = Literal["", "LOADING", "READY", "UNLOADING", "UNAVAILABLE"]
_STOPPING = "the server is stopping"
_log = get_logger(__name__)


class Model(Protocol):
    """A loaded model: one that takes tensors, or a language model."""

    statistics: ModelStatistics
    in_flight: InFlight

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def pending(self) -> int:
        """Requests that wait."""
        ...

    async def drain(self) -> None:
        """Wait for the requests in flight, then free the model."""
        ...


Load = Callable[[], Awaitable[Model]]
"""Loads a model; raises `ModelLoadFailed`."""


@dataclass(eq=False, slots=True)
class _Entry:
    state: State = ""
    reason: str = ""
    version: str = "1"
    model: Model | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModelSource(Protocol):
    """What models there are, beside those that are declared."""

    def list_names(self) -> Sequence[str]:
        """The models of the repository."""
        ...

    def find(self, name: str) -> Load | None:
        """How a model is loaded; None if there is no such model."""
        ...


class ModelRegistry:
    """The models of a server. `declared` ones have options of the command line."""

    def __init__(self, declared: dict[str, Load], source: ModelSource) -> None:
        self._declared = declared
        self._source = source
        self._entries: dict[str, _Entry] = {name: _Entry() for name in declared}
        self._is_stopping = False

    def find(self, name: str, version: str = "") -> Model:
        """A model that takes requests; `InferenceFailed` if there is none."""
        entry = self._entries.get(name)
        if entry is None or (entry.model is None and not entry.state):
            if entry is None and name not in self._source.list_names():
                raise InferenceFailed(ErrorKind.NOT_FOUND, f"model {name!r} does not exist")
            raise InferenceFailed(ErrorKind.UNAVAILABLE, f"model {name!r} is not loaded")
        if self._is_stopping:
            raise InferenceFailed(ErrorKind.UNAVAILABLE, _STOPPING)
        model = entry.model
        if model is None:
            detail = f": {entry.reason}" if entry.reason else ""
            raise InferenceFailed(
                ErrorKind.UNAVAILABLE, f"model {name!r} is {entry.state.lower()}{detail}"
            )
        if version and version != entry.version:
            raise InferenceFailed(
                ErrorKind.NOT_FOUND,
                f"model {name!r} has no version {version!r}: it has {entry.version}",
            )
        return model

    def is_ready(self, name: str, version: str = "") -> bool:
        """Whether a model takes requests."""
        try:
            self.find(name, version)
        except InferenceFailed as error:
            if error.kind is ErrorKind.NOT_FOUND:
                raise
            return False
        return True

    def loaded(self) -> Iterator[Model]:
        """The models that take requests, by name."""
        for _, entry in sorted(self._entries.items()):
            if entry.model is not None:
                yield entry.model

    def describe_index(self, *, only_ready: bool = False) -> list[dict[str, Any]]:
        """The index of the repository."""
        names = sorted({*self._entries, *self._source.list_names()})
        index: list[dict[str, Any]] = []
        for name in names:
            entry = self._entries.get(name) or _Entry()
            if entry.state == "READY" or not only_ready:
                index.append(
                    {
                        "name": name,
                        "version": entry.version if entry.state else "",
                        "state": entry.state,
                        "reason": entry.reason,
                    }
                )
        return index

    async def load(self, name: str) -> None:
        """Load a model, or load it again; `InferenceFailed` with the reason if that fails."""
        load = self._declared.get(name) or self._source.find(name)
        if load is None:
            raise InferenceFailed(
                ErrorKind.NOT_FOUND, f"model {name!r} cannot be loaded: it is not in the repository"
            )
        entry = self._entries.setdefault(name, _Entry())
        async with entry.lock:
            if entry.model is None:
                entry.state, entry.reason = "LOADING", ""
            try:
                model = await load()
            except ModelLoadFailed as error:
                _log.warning("model not loaded", model=name, reason=str(error))
                if entry.model is None:
                    entry.state, entry.reason = "UNAVAILABLE", str(error)
                raise InferenceFailed(
                    ErrorKind.INVALID_ARGUMENT, f"model {name!r} cannot be loaded: {error}"
                ) from error
            previous, entry.model = entry.model, model
            entry.state, entry.version, entry.reason = "READY", model.spec.version, ""
            _log.info("model loaded", model=name, version=entry.version)
            if previous is not None:
                await previous.drain()

    async def unload(self, name: str) -> None:
        """Unload a model after its requests in flight; nothing happens to one that is not
        loaded."""
        entry = self._entries.get(name)
        if entry is None:
            if name not in self._source.list_names():
                raise InferenceFailed(
                    ErrorKind.NOT_FOUND,
                    f"model {name!r} cannot be unloaded: it is not in the repository",
                )
            return
        async with entry.lock:
            model, entry.model = entry.model, None
            if model is not None:
                entry.state, entry.reason = "UNLOADING", ""
                await model.drain()
                _log.info("model unloaded", model=name)
            entry.state, entry.reason = "UNAVAILABLE", "unloaded"

    async def stop(self) -> None:
        """Refuse further requests, and return when those in flight are finished."""
        self._is_stopping = True
        for entry in self._entries.values():
            if entry.model is not None:
                await entry.model.drain()


class RepositoryFolder:
    """A model repository in Triton's layout: `MODEL/VERSION/model.onnx`, `MODEL/config.pbtxt`."""

    def __init__(self, folder: Path | None, builtin: Callable[[str], Load | None]) -> None:
        self._folder = folder
        self._builtin = builtin

    def list_names(self) -> Sequence[str]:
        if self._folder is None:
            return ()
        try:
            folders = [each for each in self._folder.iterdir() if each.is_dir()]
        except OSError as error:
            _log.warning("model repository cannot be read", folder=str(self._folder), error=error)
            return ()
        return sorted(each.name for each in folders if not each.name.startswith("."))

    def find(self, name: str) -> Load | None:
        if self._folder is None or name not in self.list_names():
            return self._builtin(name)
        folder = self._folder / name

        async def load() -> Model:
            return await asyncio.to_thread(_load_folder, name, folder)

        return load


def _load_folder(name: str, folder: Path) -> Model:
    versions = sorted(
        (int(each.name), each.name)
        for each in folder.iterdir()
        if each.is_dir() and each.name.isascii() and each.name.isdecimal()
    )
    if not versions:
        raise ModelLoadFailed("there is no version: a folder such as 1, with model.onnx")
    try:
        from kilonova.serving.modelserver.models.onnx import load_onnx
    except ModuleNotFoundError as error:
        raise ModelLoadFailed(
            f"{error.name} is not installed: pip install 'kilonova[onnx]'"
        ) from error
    from kilonova.serving.modelserver.execution import ServedModel

    return ServedModel(load_onnx(name, versions[-1][1], folder))
