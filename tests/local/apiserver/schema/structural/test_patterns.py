"""Go's regular expressions, translated to Python's."""

import pytest

from kilonova.local.apiserver.schema.structural.patterns import PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a+$", "aa", True),
        ("^a+$", "aa\n", False),
        ("(?m)^a$", "b\na\nb", True),
        ("b", "abc", True),
        (r"^\d+$", "\u0663", False),
        (r"^[[:alpha:]_]+$", "ab_", True),
        (r"[[:^alpha:]]", "a", False),
        (r"^\pL+$", "\u00e9", True),
        (r"^\P{L}+$", "\u00e9", False),
        (r"^[\p{Lu}0-9]+$", "\u00c91", True),
        (r"^\x{e9}$", "\u00e9", True),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"a\z", "a\n", False),
        ("(?<word>a)", "a", True),
        ("(?P<word>a)", "a", True),
        ("(?i)^ABC$", "abc", True),
        ("^[]a]+$", "]a", True),
        (r"^[^[\]]+$", "a[b", False),
        ("^a{1,3}?$", "aaa", True),
        (r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]+)*$", "a-1.b", True),
    ],
)
def test_pattern_matches_as_in_go(pattern: str, text: str, matches: bool) -> None:
    assert (compile_pattern(pattern).search(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", "missing closing ): `(`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("*a", "missing argument to repetition operator"),
        ("[z-a]", "invalid character class range"),
        ("[a", "missing closing ]"),
        ("a\\", "trailing backslash at end of expression"),
        (r"[[:what:]]", "invalid character class range: `[:what:]`"),
    ],
)
def test_pattern_invalid_in_go_is_rejected(pattern: str, error: str) -> None:
    with pytest.raises(PatternError) as raised:
        compile_pattern(pattern)
    assert str(raised.value).startswith(f"error parsing regexp: {error}")
