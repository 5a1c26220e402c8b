"""Revisions are decoded once for each state of a set, and dropped with it."""

from kilonova.kube.controllers.controller_revisions import ControllerRevision
from kilonova.workloads.caches import build_caches
from kilonova.workloads.controllers.podcliqueset_replica.revision_cache import RevisionCache
from kilonova.workloads.revisions import build_controller_revision, resolve_current_revision
from tests.kube.scripted_transport import ScriptedTransport, client_over
from tests.workloads.api_objects import clique, decode_built, pod_clique_set


def test_cached_revisions_are_dropped_with_their_set() -> None:
    caches = build_caches(client_over(ScriptedTransport([])))
    set_ = pod_clique_set(clique("a"))
    reader = RevisionCache(caches)
    caches.sets.store.put(set_)
    caches.revisions.store.put(
        decode_built(
            build_controller_revision(set_, resolve_current_revision(set_, [])), ControllerRevision
        )
    )
    read = reader.get_revisions(set_)
    assert read.current is not None
    assert reader.get_revisions(set_) is read
    caches.sets.store.remove((set_.metadata.namespace, set_.metadata.name))
    assert reader.get_revisions(set_) is not read
