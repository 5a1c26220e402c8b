"""Epochs: the fencing tokens of a fleet's leaders, as one number.

An epoch is the **generation** of the store, in the high bits, and the term of the leader in that
store. A store that takes the place of another gets a higher generation: whatever a leader at the
former store does, its epochs are lower.
"""

_TERM_BITS = 32
_MAX_GENERATION = 2**20
"""So that an epoch is exact also where numbers are doubles."""


def build_epoch(generation: int, term: int) -> int:
    """The epoch of a term."""
    if not 0 < generation < _MAX_GENERATION:
        raise ValueError(f"generation is {generation}, must be from 1 to {_MAX_GENERATION - 1}")
    if not 0 <= term < 2**_TERM_BITS:
        raise ValueError(f"term is {term}, must be from 0 to {2**_TERM_BITS - 1}")
    return generation << _TERM_BITS | term


def generation_of(epoch: int) -> int:
    """The generation of an epoch; 0 if there was no leader."""
    return epoch >> _TERM_BITS


def format_epoch(epoch: int) -> str:
    """An epoch for people: generation and term."""
    return f"{generation_of(epoch)}.{epoch & (1 << _TERM_BITS) - 1}"


def choose_epoch(stored: int, floor: int, term: int) -> int:
    """The epoch of a new term: above the last one of the store, and above `floor`, the highest that
    is known from elsewhere.

    Within a generation terms order epochs. The next generation begins if another store has had a
    higher epoch, or if the terms of this one started again because its lease was deleted.
    """
    if floor > stored:
        return build_epoch(generation_of(floor) + 1, term)
    generation = max(generation_of(stored), 1)
    epoch = build_epoch(generation, term)
    return epoch if epoch > stored else build_epoch(generation + 1, term)
