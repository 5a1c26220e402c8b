"""Describes YAML syntax errors in one line.

The parser's own messages quote the text, which may contain secrets, and span several lines.
"""

import yaml


def describe_yaml_error(error: yaml.YAMLError) -> str:
    """The problem and its line number."""
    mark = getattr(error, "problem_mark", None)
    line = f" in line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "syntax error"
    return f"{problem}{line}"
