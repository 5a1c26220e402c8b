"""Moves that would be made, as `kilonova plan --moves` prints them."""

from kilonova.cli.screen import tamed
from kilonova.cli.tables import table
from kilonova.scheduler.proposing import ProposedMoves

_HOUR = 3600.0


def moves_text(moves: ProposedMoves) -> str:
    """Who would move from where to where, and what for."""
    if not moves.pods:
        return "Nothing would be moved."
    rows = [
        (each.pod, each.gang, each.leaves, each.goes, each.devices or "-") for each in moves.pods
    ]
    lost = f"Work that would be lost: {moves.lost_work / _HOUR:.1f} GPU hours."
    emptied = ", ".join(moves.emptied) or "none, but holes become small"
    what_for = f"Nodes that become empty: {emptied}."
    if moves.makes_room_for:
        what_for = tamed(f"Makes room for {moves.makes_room_for}.")
    return "\n\n".join(
        (table(("MOVED POD", "GANG", "FROM", "TO", "DEVICES"), rows), f"{what_for}\n{lost}")
    )
