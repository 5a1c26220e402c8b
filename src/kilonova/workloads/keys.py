"""Work queue keys of the controllers: a set, a replica of a set, a clique."""

from dataclasses import dataclass

from kilonova.api.grove import names
from kilonova.api.meta import Metadata
from kilonova.kube import Key


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """One replica of a set."""

    namespace: str
    set_name: str
    index: int

    @property
    def queue_key(self) -> Key:
        """The work queue key. No name contains a slash, so it can be decoded."""
        return self.namespace, f"{self.set_name}/{self.index}"

    @classmethod
    def from_queue_key(cls, key: Key) -> "ReplicaKey":
        namespace, text = key
        set_name, _, index = text.rpartition("/")
        return cls(namespace, set_name, int(index))


def get_set_key(child: Metadata) -> Key | None:
    """The key of the set that an object belongs to, by its labels."""
    name = child.labels.get(names.PART_OF)
    return (child.namespace, name) if name else None


def get_replica_key(child: Metadata) -> ReplicaKey | None:
    """The replica that an object belongs to, by its labels."""
    name, index = child.labels.get(names.PART_OF), child.labels.get(names.SET_REPLICA_INDEX)
    if not name or index is None or not index.isdecimal():
        return None
    return ReplicaKey(child.namespace, name, int(index))


def get_clique_key(pod: Metadata) -> Key | None:
    """The key of a pod's clique, by its labels."""
    name = pod.labels.get(names.POD_CLIQUE)
    return (pod.namespace, name) if name else None


def get_label_index(child: Metadata, label: str) -> int | None:
    """The number in a label; None if the label is absent or not a number."""
    text = child.labels.get(label, "")
    return int(text) if text.isdecimal() else None


def get_incarnation(child: Metadata) -> int:
    """How often all pods of a clique have been replaced at once; of a pod, the incarnation of its
    clique at creation.
    """
    text = child.annotations.get(names.INCARNATION, "")
    return int(text) if text.isdecimal() else 0
