"""Fail if a test was skipped: what was not run was not shown to work."""

import sys
from xml.etree import ElementTree


def main(report: str) -> None:
    cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 (our own file)
    skipped = [
        f"{case.get('classname')}::{case.get('name')}: {skip.get('message')}"
        for case in cases
        for skip in case.findall("skipped")
        # Expected failures are written as skips too; they did run.
        if skip.get("type") != "pytest.xfail"
    ]
    print(f"{len(cases)} tests, {len(skipped)} skipped")
    if not cases:
        sys.exit("no test was run")
    if skipped:
        sys.exit("\n".join(["skipped:", *skipped]))


main(sys.argv[1])
