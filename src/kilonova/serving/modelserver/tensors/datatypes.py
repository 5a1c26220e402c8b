"""The data types of the v2 protocol."""

from dataclasses import dataclass

from kilonova.serving.modelserver.errors import InvalidTensor


@dataclass(frozen=True, slots=True)
class Datatype:
    """A data type: its name in requests, and in model configurations."""

    name: str
    size: int
    """Bytes of an element; 0 for BYTES, whose elements are preceded by their length."""
    typecode: str
    """As in `array` and `struct`; empty where elements are no numbers."""
    config_name: str

    @property
    def is_integer(self) -> bool:
        return self.name.startswith(("INT", "UINT"))


BYTES = Datatype("BYTES", 0, "", "TYPE_STRING")
_DATATYPES = (
    Datatype("BOOL", 1, "B", "TYPE_BOOL"),
    Datatype("UINT8", 1, "B", "TYPE_UINT8"),
    Datatype("UINT16", 2, "H", "TYPE_UINT16"),
    Datatype("UINT32", 4, "I", "TYPE_UINT32"),
    Datatype("UINT64", 8, "Q", "TYPE_UINT64"),
    Datatype("INT8", 1, "b", "TYPE_INT8"),
    Datatype("INT16", 2, "h", "TYPE_INT16"),
    Datatype("INT32", 4, "i", "TYPE_INT32"),
    Datatype("INT64", 8, "q", "TYPE_INT64"),
    Datatype("FP16", 2, "e", "TYPE_FP16"),
    Datatype("FP32", 4, "f", "TYPE_FP32"),
    Datatype("FP64", 8, "d", "TYPE_FP64"),
    Datatype("BF16", 2, "", "TYPE_BF16"),
    BYTES,
)
_BY_NAME = {each.name: each for each in _DATATYPES}
BY_CONFIG_NAME = {each.config_name: each for each in _DATATYPES}


def find_datatype(name: str) -> Datatype:
    """The data type of a name; `InvalidTensor` for an unknown one."""
    found = _BY_NAME.get(name)
    if found is None:
        raise InvalidTensor(f"datatype {name!r} is unknown: use {', '.join(_BY_NAME)}")
    return found
