"""The tables of the catalog, each a JSON file with the date and the source of its facts."""

from importlib.resources import files


def read_table(name: str) -> bytes:
    """The file of a table."""
    return files(__name__).joinpath(f"{name}.json").read_bytes()
