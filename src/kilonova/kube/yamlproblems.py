"""What is wrong with a text that is not YAML: the messages of the parser repeat the text, which may
hold secrets, and span lines."""

import yaml


def yaml_problem(error: yaml.YAMLError) -> str:
    """In one line: the problem, and in which line it is."""
    mark = getattr(error, "problem_mark", None)
    line = f" in line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "syntax error"
    return f"{problem}{line}"
