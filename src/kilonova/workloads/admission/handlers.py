"""Answers to the API server: thin shells around the rules.

What a set is judged by is read when it is asked for, not taken from a cache: a topology and a
set that names it may come in one file, and the set must not be refused because a watch is a
moment behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.admission import Allowed, Answer, Handler, Mutated, Problem, Review, invalid
from kilonova.workloads import resources
from kilonova.workloads.admission import hooks
from kilonova.workloads.admission.authorizer import SYSTEM_USERS, set_in_question, verdict
from kilonova.workloads.admission.defaults import defaulted, taken_as_one
from kilonova.workloads.admission.drafts import read_set
from kilonova.workloads.admission.findings import Findings
from kilonova.workloads.admission.packing import topology_names
from kilonova.workloads.admission.schedulers import volcano_queue
from kilonova.workloads.admission.topologies import validate_topology
from kilonova.workloads.admission.validation import Context, validate_create, validate_update
from kilonova.workloads.backends import VOLCANO
from kilonova.workloads.backends.volcano import VOLCANO_QUEUES
from kilonova.workloads.settings import Settings

_T = TypeVar("_T")


def build_handlers(client: Client, settings: Settings, *, operator: str) -> Mapping[str, Handler]:
    """The handlers by path, for an `AdmissionServer` or an embedded cluster.

    `operator` is the user that the operator is known as, whom the authorizer lets pass.
    """
    judge = _Judge(client, settings, frozenset((operator, *settings.exempt_users, *SYSTEM_USERS)))
    found: dict[str, Handler] = {
        hooks.DEFAULTS_PATH: judge.fill_in,
        hooks.VALIDATION_PATH: judge.check_set,
        hooks.TOPOLOGY_PATH: judge.check_topology,
    }
    if settings.authorizer:
        found[hooks.AUTHORIZER_PATH] = judge.authorize
    return found


@dataclass(frozen=True, slots=True)
class _Judge:
    client: Client
    settings: Settings
    trusted: frozenset[str]

    async def fill_in(self, review: Review) -> Answer:
        obj = _subject(review)
        return Mutated(defaulted(obj, review.old_object), taken_as_one(obj))

    async def check_set(self, review: Review) -> Answer:
        obj = _subject(review)
        topologies, queues = await self._topologies(obj), await self._queues(obj)
        context = Context(self.settings, topologies, queues)
        if review.old_object is None:
            return _answer(review, validate_create(obj, context))
        return _answer(review, validate_update(review.old_object, obj, context))

    async def check_topology(self, review: Review) -> Answer:
        return _answer(review, validate_topology(_subject(review), self.settings))

    async def authorize(self, review: Review) -> Answer:
        key = set_in_question(review, self.trusted)
        if key is None:
            return Allowed()
        found = await self._find(resources.SETS, key[1], key[0])
        return verdict(review, key, None if found is None else found.metadata.annotations)

    async def _topologies(self, obj: JsonObject) -> dict[str, tuple[str, ...]]:
        draft = read_set(obj)
        if isinstance(draft, Problem):
            return {}
        found: dict[str, tuple[str, ...]] = {}
        for name in topology_names(draft.template):
            topology = await self._find(resources.TOPOLOGIES, name)
            if topology is not None:
                found[name] = tuple(level.domain for level in topology.spec.levels)
        return found

    async def _queues(self, obj: JsonObject) -> dict[str, str | None] | None:
        """The state of the queue of Volcano that a set names, where Volcano is enabled."""
        draft = read_set(obj)
        if isinstance(draft, Problem) or VOLCANO not in self.settings.backends:
            return None
        queue = volcano_queue(draft, self.settings.schedulers)
        if queue is None:
            return None
        found = await self._find(VOLCANO_QUEUES, queue)
        return {queue: None if found is None else found.status.state}

    async def _find(
        self, resource: Resource[_T], name: str, namespace: str | None = None
    ) -> _T | None:
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None


def _subject(review: Review) -> JsonObject:
    if review.object is None:
        raise ValueError(f"a review of {review.operation} without an object")
    return review.object


def _answer(review: Review, findings: Findings) -> Answer:
    if findings.problems:
        return invalid(*findings.problems, warnings=findings.warnings, review=review)
    return Allowed(findings.warnings)
