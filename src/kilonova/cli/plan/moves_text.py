"""A consolidation proposal as the text of `kilonova plan --moves`."""

from kilonova.component.command.output.formats import format_table
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.scheduler.library.consolidation_proposal import ConsolidationProposal

_SECONDS_PER_HOUR = 3600.0


def format_moves(proposal: ConsolidationProposal) -> str:
    """The pods that would be moved, what they free, and the work that would be lost."""
    if not proposal.pods:
        return "No pods would be moved."
    rows = [
        (each.pod, each.gang, each.from_node, each.to_node, each.devices or "-")
        for each in proposal.pods
    ]
    lost = (
        f"Work that would be lost: {proposal.lost_gpu_seconds / _SECONDS_PER_HOUR:.1f} GPU hours."
    )
    emptied = ", ".join(proposal.emptied_nodes) or "none, but fragmentation decreases"
    gain = f"Nodes that become empty: {emptied}."
    if proposal.target_gang:
        gain = strip_control_characters(f"Frees capacity for {proposal.target_gang}.")
    table = format_table(("MOVED POD", "GANG", "FROM", "TO", "DEVICES"), rows)
    return f"{table}\n\n{gain}\n{lost}"
