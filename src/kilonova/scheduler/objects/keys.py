"""Keys of objects as text."""

from kilonova.kube import Key


def split_key(key: str) -> Key:
    """(namespace, name) of NAMESPACE/NAME.

    The namespace of a PodGroup's gang itself contains a slash: its kind comes first.
    """
    namespace, _, name = key.rpartition("/")
    return namespace, name
