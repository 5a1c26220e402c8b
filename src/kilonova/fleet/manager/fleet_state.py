"""What the leader has read from the store, and what it has written there."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from kilonova.api.fleet import ClusterStatus
from kilonova.api.inference_engine import DeploymentStatus, ReleaseStatus
from kilonova.api.times import Time
from kilonova.fleet.documents import (
    DESIRED,
    JOURNAL,
    OBSERVED,
    SAVED_OBJECTS,
    Desired,
    DesiredDeployment,
    JournalEntry,
    JournalSegment,
    Observed,
    SavedObject,
)
from kilonova.fleet.manager.hub import ObjectId, Status, id_of
from kilonova.fleet.store import FleetStore, FleetTerm, InvalidDocument, StoredDocument
from kilonova.kube.observability.structured_logging import get_logger

log = get_logger(__name__)

_SEGMENT_ENTRIES = 100


@dataclass(slots=True)
class FleetState:
    """The documents of the store, as far as this leader is concerned.

    Writes raise `PreconditionFailed` if another leader has written meanwhile: this one then begins
    anew, or notices that it does not lead.
    """

    term: FleetTerm
    statuses: dict[ObjectId, Status] = field(default_factory=dict[ObjectId, Status])
    """By the last pass."""
    saved: dict[ObjectId, StoredDocument[SavedObject]] = field(
        default_factory=dict[ObjectId, StoredDocument[SavedObject]]
    )
    desired: dict[str, StoredDocument[Desired]] = field(
        default_factory=dict[str, StoredDocument[Desired]]
    )
    observed: dict[str, Observed] = field(default_factory=dict[str, Observed])
    _segment: JournalSegment = field(default_factory=lambda: JournalSegment(0))
    _segment_version: str | None = None
    _reported: set[str] = field(default_factory=set[str])

    @property
    def store(self) -> FleetStore:
        """The store of the term."""
        return self.term.store

    async def load(self) -> None:
        """Read everything, at the beginning of a term."""
        for each in await self.store.read_all(SAVED_OBJECTS, self._report):
            self.saved[id_of(each.document)] = each
        for desired in await self.store.read_all(DESIRED, self._report):
            self.desired[desired.document.cluster] = desired
        await self.read_reports()
        segments = await self.store.read_all(JOURNAL, self._report)
        if segments:
            last = max(segments, key=lambda each: each.document.number)
            self._segment, self._segment_version = last.document, last.version

    async def read_reports(self) -> None:
        """Read what members reported since the last time."""
        found = await self.store.read_all(OBSERVED, self._report)
        self.observed = {each.document.cluster: each.document for each in found}

    async def save(self, found: SavedObject) -> None:
        """Save an object of the hub with its state."""
        key = id_of(found)
        old = self.saved.get(key)
        sequence = 1 if old is None else old.document.sequence + 1
        document = replace(found, epoch=self.term.epoch, sequence=sequence)
        version = None if old is None else old.version
        self.saved[key] = await self.store.write(SAVED_OBJECTS, document, version)

    async def order(
        self, cluster: str, deployments: tuple[DesiredDeployment, ...], now: Time
    ) -> bool:
        """Write what a member is to run, if it differs from what this leader wrote before."""
        old = self.desired.get(cluster)
        epoch = self.term.epoch
        if (
            old is not None
            and old.document.epoch == epoch
            and old.document.deployments == deployments
        ):
            return False
        document = Desired(
            cluster=cluster,
            epoch=epoch,
            sequence=1 if old is None else old.document.sequence + 1,
            time=now,
            deployments=deployments,
        )
        version = None if old is None else old.version
        self.desired[cluster] = await self.store.write(DESIRED, document, version)
        return True

    async def forget_cluster(self, cluster: str) -> None:
        """Delete the documents of a cluster that is no longer a member."""
        await self.store.delete(OBSERVED, cluster)
        await self.store.delete(DESIRED, cluster)
        self.observed.pop(cluster, None)
        self.desired.pop(cluster, None)

    async def record(self, entries: Iterable[JournalEntry]) -> None:
        """Append decisions to the journal."""
        waiting = list(entries)
        while waiting:
            segment, version = self._segment, self._segment_version
            if len(segment.entries) >= _SEGMENT_ENTRIES:
                segment = JournalSegment(segment.number + 1)
                key = JOURNAL.key_parts(segment)
                overwritten = await self.store.read(JOURNAL, *key)
                version = None if overwritten is None else overwritten.version
            free = _SEGMENT_ENTRIES - len(segment.entries)
            added, waiting = waiting[:free], waiting[free:]
            segment = JournalSegment(segment.number, (*segment.entries, *added))
            written = await self.store.write(JOURNAL, segment, version)
            self._segment, self._segment_version = segment, written.version

    def _report(self, error: InvalidDocument) -> None:
        """Log a document that cannot be read, once."""
        if str(error) not in self._reported:
            self._reported.add(str(error))
            log.warning("document ignored", error=str(error))


def is_worth_saving(old: Status, new: Status) -> bool:
    """Whether a state differs in more than what members report again anyway."""
    return _strip(old) != _strip(new)


def _strip(status: Status) -> Status:
    match status:
        case ClusterStatus():
            return replace(
                status,
                last_seen=None,
                sequence=None if status.health == "Healthy" else status.sequence,
                nodes=None,
                accelerators=(),
                instances=0,
                ready_instances=0,
                conditions=(),
            )
        case DeploymentStatus():
            clusters = tuple(
                replace(
                    each,
                    observed=0,
                    ready=0,
                    unallocatable=0,
                    additional=None,
                    last_seen=None,
                    reason="",
                )
                for each in status.clusters
            )
            return replace(
                status, clusters=clusters, observed=0, ready=0, unallocatable=0, conditions=()
            )
        case ReleaseStatus():
            return replace(status, clusters=(), conditions=())
