"""Findings as the text of `kilonova doctor`."""

from kilonova.component.command.output.colours import colour_of_state, paint
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.component.finding import Finding


def format_findings(findings: list[Finding], coloured: bool) -> str:
    """As text, a line each: `warning  kubectl: is not on the PATH → install it`."""
    lines: list[str] = []
    for each in findings:
        level = f"{each.level:<8}"
        fix = f" → {each.fix}" if each.fix else ""
        head = paint(level, colour_of_state(each.level)) if coloured else level
        lines.append(f"{head} {strip_control_characters(f'{each.check}: {each.message}{fix}')}")
    return "\n".join(lines)
