"""Answers for a whole service, from its servers or from what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import Message

from kilonova.api.serving import InferenceServiceSpec, ServerGroup
from kilonova.serving.controlplane.answers import questions
from kilonova.serving.controlplane.answers.merge import (
    READY,
    ModelIndex,
    merge_indexes,
    merge_statistics,
)
from kilonova.serving.controlplane.answers.questions import Question
from kilonova.serving.controlplane.answers.servers import Refusal, ServerClients
from kilonova.serving.controlplane.answers.shared_answers import SharedAnswers
from kilonova.serving.controlplane.holds.answer import HoldOutcome
from kilonova.serving.controlplane.holds.requests import HeldRequestQueue, Wanted
from kilonova.serving.controlplane.publication import Publication, Publications
from kilonova.serving.gateway.model import Endpoint, EndpointState, ServiceKey
from kilonova.serving.grpc import inference_pb2 as pb

_EXTENSIONS = (
    "model_configuration",
    "model_repository",
    "statistics",
)
"""What servers of the runtimes that we know can be asked, said for a service that has none yet."""

_SHARED_SECONDS = 0.5
"""How long an answer is given again without asking the servers."""

A = TypeVar("A", bound=Message)


class NoAnswer(Exception):
    """Why there is none: `outcome` of a hold, or None if the model is not known."""

    def __init__(self, message: str, outcome: HoldOutcome | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(slots=True)
class _Memory:
    """What was answered last, by group and question."""

    answers: dict[tuple[str, tuple[str, bytes]], Message] = field(
        default_factory=dict[tuple[str, tuple[str, bytes]], Message]
    )


class ServiceAnswers:
    """Answers about services. `NoAnswer` where there is none."""

    def __init__(
        self, publications: Publications, held: HeldRequestQueue, clients: ServerClients
    ) -> None:
        self._publications = publications
        self._held = held
        self._clients = clients
        self._shared = SharedAnswers(_SHARED_SECONDS)
        self._memories: dict[ServiceKey, _Memory] = {}
        publications.add_listener(self._forget)

    def is_ready(self, key: ServiceKey) -> bool:
        """Whether requests are answered: there is a server, or one starts with the next request."""
        published = self._publications.get(key)
        return (
            published is not None
            and not published.state.secrets.problems
            and any(
                each.name in published.on_demand or list_ready(published, each.name)
                for each in published.spec.servers
            )
        )

    async def get_server_metadata(self, key: ServiceKey) -> pb.ServerMetadataResponse:
        """The metadata of a server; its name is that of the service."""
        published = self._get(key)
        question = questions.ask_server_metadata()
        for group in list_v2_groups(published.spec):
            answers = await self._ask(key, published, group.name, question)
            if answers:
                named = pb.ServerMetadataResponse()
                named.CopyFrom(answers[0])
                return named
        return pb.ServerMetadataResponse(name=key[1], version="2", extensions=_EXTENSIONS)

    async def get_index(self, key: ServiceKey, *, ready: bool) -> pb.RepositoryIndexResponse:
        """The models of all servers."""
        published = self._get(key)
        question = questions.ask_index()
        found: list[pb.RepositoryIndexResponse] = []
        for group in list_v2_groups(published.spec):
            answers = await self._ask(key, published, group.name, question)
            if not answers and not list_ready(published, group.name):
                answers = [_build_index(published.spec, group)]
                if not answers[0].models and group.name in published.state.starting:
                    answers = await self._hold_and_ask(key, group.name, question)
            found += answers
        return merge_indexes(found, ready=ready)

    async def get_statistics(
        self, key: ServiceKey, name: str, version: str
    ) -> pb.ModelStatisticsResponse:
        """The statistics of all servers that there are, in sum."""
        published = self._get(key)
        question = questions.ask_statistics(name, version)
        answers: list[pb.ModelStatisticsResponse] = []
        for group in list_v2_groups(published.spec):
            endpoints = list_ready(published, group.name)
            found = await self._clients.ask_all(endpoints, question)
            answers += [each for each in found if not isinstance(each, Refusal)]
        merged = merge_statistics(answers)
        if name and not merged.model_stats:
            if not await self.is_model_ready(key, name, version):
                raise NoAnswer(f"model {name!r} is not known")
            merged.model_stats.add(name=name, version=version)
        return merged

    async def is_model_ready(self, key: ServiceKey, name: str, version: str) -> bool:
        """Whether requests for a model are answered."""
        published = self._get(key)
        question = questions.ask_model_ready(name, version)
        for group in list_v2_groups(published.spec):
            endpoints = list_ready(published, group.name)
            found = await self._clients.ask_all(endpoints, question)
            if any(not isinstance(each, Refusal) and each.ready for each in found):
                return True
            if not endpoints and group.name in published.on_demand:
                known = self._recall_index(key, published.spec, group).models
                if any(each.name == name for each in known):
                    return True
        return False

    async def get_model_metadata(
        self, key: ServiceKey, name: str, version: str
    ) -> pb.ModelMetadataResponse:
        """The inputs and outputs of a model, from any server that has it."""
        return await self._ask_any(key, questions.ask_model_metadata(name, version), name)

    async def get_model_config(
        self, key: ServiceKey, name: str, version: str
    ) -> pb.ModelConfigResponse:
        """The configuration of a model, from any server that has it."""
        return await self._ask_any(key, questions.ask_model_config(name, version), name)

    async def fetch_openai_models(self, key: ServiceKey) -> list[bytes]:
        """What each server of the OpenAI API answers to `/v1/models`."""
        published = self._get(key)
        found: list[bytes] = []
        for group in published.spec.servers:
            if group.protocol != "OpenAI":
                continue
            if not list_ready(published, group.name) and group.name in published.state.starting:
                await self._hold(key, group.name)
                published = self._get(key)
            found += await self._clients.fetch_all(list_ready(published, group.name), "/v1/models")
        return found

    async def _ask_any(self, key: ServiceKey, question: Question[A], model: str) -> A:
        published = self._get(key)
        groups = list_v2_groups(published.spec)
        for group in groups:
            answers = await self._ask(key, published, group.name, question)
            if answers:
                return answers[0]
        for group in groups:
            if list_ready(published, group.name) or group.name not in published.state.starting:
                continue
            known = self._recall_index(key, published.spec, group).models
            if not known or any(each.name == model for each in known):
                answers = await self._hold_and_ask(key, group.name, question)
                if answers:
                    return answers[0]
        raise NoAnswer(f"model {model!r} is not known")

    async def _ask(
        self, key: ServiceKey, published: Publication, group: str, question: Question[A]
    ) -> list[A]:
        """The answers of a group; without a server the last one of it."""
        endpoints = list_ready(published, group)
        memory = self._memories.setdefault(key, _Memory()).answers
        if not endpoints:
            known = memory.get((group, question.memory_key))
            return [known] if isinstance(known, question.answer) else []
        found = await self._shared.get(
            (key, group, question.memory_key), lambda: self._clients.ask_all(endpoints, question)
        )
        answers = [each for each in found if not isinstance(each, Refusal)]
        if answers:
            is_index = isinstance(answers[0], pb.RepositoryIndexResponse)
            memory[group, question.memory_key] = (
                merge_indexes(answers, ready=False)  # pyright: ignore[reportArgumentType]
                if is_index
                else answers[0]
            )
        return answers

    async def _hold_and_ask(self, key: ServiceKey, group: str, question: Question[A]) -> list[A]:
        await self._hold(key, group)
        return await self._ask(key, self._get(key), group, question)

    async def _hold(self, key: ServiceKey, group: str) -> None:
        outcome = await self._held.hold(Wanted(key, group))
        if outcome is not HoldOutcome.READY:
            raise NoAnswer(f"group {group} has no server", outcome)

    def _recall_index(
        self, key: ServiceKey, spec: InferenceServiceSpec, group: ServerGroup
    ) -> pb.RepositoryIndexResponse:
        """The models that a group is known to have."""
        memory = self._memories.get(key, _Memory()).answers
        known = memory.get((group.name, questions.ask_index().memory_key))
        return known if isinstance(known, pb.RepositoryIndexResponse) else _build_index(spec, group)

    def _get(self, key: ServiceKey) -> Publication:
        published = self._publications.get(key)
        if published is None:
            raise NoAnswer("the service is not known yet", HoldOutcome.NO_SERVER)
        return published

    def _forget(self, key: ServiceKey) -> None:
        self._shared.forget(key)
        if self._publications.get(key) is None:
            self._memories.pop(key, None)


def list_ready(published: Publication, group: str) -> list[Endpoint]:
    """The servers of a group that get requests."""
    endpoints = published.state.endpoints.get(group, ())
    return [each for each in endpoints if each.state is EndpointState.READY]


def list_v2_groups(spec: InferenceServiceSpec) -> list[ServerGroup]:
    """The groups that can be asked about models."""
    return [each for each in spec.servers if each.protocol == "V2"]


def _build_index(spec: InferenceServiceSpec, group: ServerGroup) -> pb.RepositoryIndexResponse:
    """The models that the service says a group has."""
    placed = group.model_placement.models if group.model_placement is not None else ()
    names = {each.name for each in placed}
    for route in spec.routes:
        if any(each.server == group.name for each in route.backends):
            names.update(route.models)
    models = [ModelIndex(name=name, state=READY) for name in sorted(names)]
    return pb.RepositoryIndexResponse(models=models)
