"""Revisions are read once for each state of a set, and forgotten with it."""

from kilonova.workloads.caches import build_caches
from kilonova.workloads.replicas.known import RevisionReader
from kilonova.workloads.resources import Revision
from kilonova.workloads.revisions import current_revision, revision_object
from tests.kube.wire import Wire, client_on
from tests.workloads.builders import clique, made, pod_clique_set


def test_what_is_known_of_a_set_goes_with_it() -> None:
    caches = build_caches(client_on(Wire([])))
    set_ = pod_clique_set(clique("a"))
    reader = RevisionReader(caches)
    caches.sets.store.put(set_)
    caches.revisions.store.put(made(revision_object(set_, current_revision(set_, [])), Revision))
    read = reader.of(set_)
    assert read.current is not None
    assert reader.of(set_) is read
    caches.sets.store.remove((set_.metadata.namespace, set_.metadata.name))
    assert reader.of(set_) is not read
