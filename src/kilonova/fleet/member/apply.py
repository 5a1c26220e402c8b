"""Applies what is desired to the cluster."""

import asyncio

from kilonova.api.inference_engine import names
from kilonova.fleet.documents import (
    DESIRED,
    Desired,
    DesiredDeployment,
    Relocation,
)
from kilonova.fleet.member.caches import BY_DEPLOYMENT
from kilonova.fleet.member.context import MemberContext, Progress
from kilonova.fleet.member.plan import (
    Applied,
    build_manifest,
    plan_changes,
    select_relocated,
)
from kilonova.fleet.member.resources import DEPLOYMENTS, INSTANCES, NAMESPACES
from kilonova.fleet.store import (
    EpochRefused,
    FleetStore,
    format_epoch,
)
from kilonova.kube import AlreadyExists, Conflict, Key, KubeError, NotFound
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore import ObjectStoreError

log = get_logger(__name__)


class Applier:
    """Reads what is desired, and applies it."""

    def __init__(self, context: MemberContext, store: FleetStore, progress: Progress) -> None:
        self._context = context
        self._store = store
        self._progress = progress
        self._applied: dict[Key, Applied] = {}
        self._reported = ""

    async def run(self) -> None:
        """Apply at each interval."""
        while True:
            problem = ""
            try:
                async with asyncio.timeout(self._context.settings.store_timeout):
                    desired = await self._store.read(DESIRED, self._context.settings.cluster)
                if desired is not None:
                    await self._apply(desired.document)
            except (EpochRefused, KubeError) as error:
                problem = self._progress.problem = str(error)
            except (ObjectStoreError, TimeoutError) as error:
                # The store that would record it is the one that cannot be reached.
                problem = str(error) or "no response from the store"
            self._report(problem)
            await asyncio.sleep(self._context.settings.poll_interval)

    async def _apply(self, desired: Desired) -> None:
        context = self._context
        await context.guard.accept(desired.epoch)
        caches = context.caches
        existing = {
            (each.metadata.namespace, each.metadata.name): each
            for each in caches.deployments.store.objects()
        }
        plan = plan_changes(desired, existing, self._applied)
        problems: dict[Key, str] = {}
        for wanted, relocation in plan.relocations:
            self._report_relocation(wanted, relocation)
        for each in plan.apply:
            key = (each.namespace, each.name)
            try:
                await self._write(each, desired.epoch, is_known=key in existing)
            except KubeError as error:
                problems[key] = str(error)
        for each in plan.delete:
            try:
                await context.client.delete(
                    DEPLOYMENTS,
                    each.metadata.name,
                    each.metadata.namespace,
                    uid=each.metadata.uid,
                )
            except (NotFound, Conflict):
                continue
        self._progress.deployment_problems = problems
        if (desired.epoch, desired.sequence) != (self._progress.epoch, self._progress.sequence):
            log.info(
                "applied",
                epoch=format_epoch(desired.epoch),
                sequence=desired.sequence,
                changed=len(plan.apply),
                deleted=len(plan.delete),
            )
        self._progress.problem = "; ".join(problems.values())
        self._progress.epoch, self._progress.sequence = desired.epoch, desired.sequence

    async def _write(self, wanted: DesiredDeployment, epoch: int, *, is_known: bool) -> None:
        client, key = self._context.client, (wanted.namespace, wanted.name)
        if not is_known:
            await self._require_ours(wanted)
        manifest = build_manifest(wanted, epoch)
        try:
            written = await client.apply(DEPLOYMENTS, wanted.name, manifest, wanted.namespace)
        except NotFound:
            await self._create_namespace(wanted.namespace)
            written = await client.apply(DEPLOYMENTS, wanted.name, manifest, wanted.namespace)
        metadata = written.metadata
        self._applied[key] = Applied(wanted, metadata.uid, metadata.generation, epoch)

    async def _require_ours(self, wanted: DesiredDeployment) -> None:
        """`Conflict` if the name is that of a deployment that is not the fleet's."""
        try:
            found = await self._context.client.get(DEPLOYMENTS, wanted.name, wanted.namespace)
        except NotFound:
            return
        if names.GLOBAL_DEPLOYMENT not in found.metadata.labels:
            name = f"{wanted.namespace}/{wanted.name}"
            problem = f"InferenceEngineDeployment {name} exists and is not the fleet's"
            raise NameTaken(f"{problem}: delete it, or label it {names.GLOBAL_DEPLOYMENT}")

    async def _create_namespace(self, name: str) -> None:
        try:
            await self._context.client.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:
            return

    def _report_relocation(self, wanted: DesiredDeployment, relocation: Relocation) -> None:
        """Say on the instances themselves where they went."""
        found = self._context.caches.instances.store.by_index(
            BY_DEPLOYMENT, (wanted.namespace, wanted.name)
        )
        failed = [
            (each.metadata.name, each.metadata.uid)
            for each in found
            if each.status.phase == "Failed"
        ]
        here = self._context.settings.cluster
        for name, uid in select_relocated(failed, relocation):
            reference = ObjectReference.to(INSTANCES, name, wanted.namespace, uid)
            message = f"Moved from cluster {here} to {relocation.target}"
            self._context.recorder.event(reference, names.INSTANCE_RELOCATED, message)

    def _report(self, problem: str) -> None:
        """Log a problem once, and its end."""
        if problem and problem != self._reported:
            log.warning("desired state not applied, retrying", error=problem)
        elif self._reported and not problem:
            log.info("desired state applied again")
        self._reported = problem


class NameTaken(KubeError):
    """An object that is not ours has the name of one that is to be created."""
