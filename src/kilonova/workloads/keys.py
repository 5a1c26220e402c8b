"""Keys of what the controllers go about: a set, a replica of a set, a clique."""

from dataclasses import dataclass

from kilonova.api.grove import names
from kilonova.api.meta import Metadata
from kilonova.kube import Key


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a set."""

    namespace: str
    set_name: str
    index: int

    @property
    def key(self) -> Key:
        """As it stands in a queue; a slash is in no name, so it can be read back."""
        return self.namespace, f"{self.set_name}/{self.index}"

    @classmethod
    def of_key(cls, key: Key) -> "Replica":
        namespace, text = key
        set_name, _, index = text.rpartition("/")
        return cls(namespace, set_name, int(index))


def set_of(child: Metadata) -> Key | None:
    """The set that an object of the operator belongs to, by its labels."""
    name = child.labels.get(names.PART_OF)
    return (child.namespace, name) if name else None


def replica_of(child: Metadata) -> Replica | None:
    """The replica of a set that an object belongs to, by its labels."""
    name, index = child.labels.get(names.PART_OF), child.labels.get(names.SET_REPLICA_INDEX)
    if not name or index is None or not index.isdecimal():
        return None
    return Replica(child.namespace, name, int(index))


def clique_of(pod: Metadata) -> Key | None:
    """The clique of a pod, by its labels."""
    name = pod.labels.get(names.POD_CLIQUE)
    return (pod.namespace, name) if name else None


def index_of(child: Metadata, label: str) -> int | None:
    """The number in a label; None where there is none."""
    text = child.labels.get(label, "")
    return int(text) if text.isdecimal() else None


def incarnation_of(child: Metadata) -> int:
    """How often a clique's pods had all been started anew; of a pod, when it was born."""
    text = child.annotations.get(names.INCARNATION, "")
    return int(text) if text.isdecimal() else 0
