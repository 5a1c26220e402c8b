"""XIDs: which are transient, and what each needs."""

import pytest

from kilonova.catalog.xids import XIDS, XidAction, find_xid


@pytest.mark.parametrize(
    ("code", "action", "is_transient"),
    [
        (13, XidAction.RESTART_APPLICATION, True),
        (31, XidAction.RESTART_APPLICATION, True),
        (43, XidAction.NONE, True),
        (45, XidAction.RESTART_APPLICATION, True),
        (48, XidAction.RESET_GPU, False),
        (63, XidAction.NONE, True),
        (64, XidAction.RESET_GPU, False),
        (74, XidAction.CHECK_LINK, True),
        (79, XidAction.RESTART_NODE, False),
        (94, XidAction.RESTART_APPLICATION, True),
        (95, XidAction.RESET_GPU, False),
        (109, XidAction.RESET_GPU, False),
        (119, XidAction.RESET_GPU, False),
        (149, XidAction.CHECK_LINK, True),
        (99_999, XidAction.RESET_GPU, False),
    ],
)
def test_xid_says_what_to_do(code: int, action: XidAction, is_transient: bool) -> None:
    xid = find_xid(code)
    assert (xid.code, xid.action, xid.is_transient) == (code, action, is_transient)


def test_xid_is_named_in_one_line() -> None:
    assert str(find_xid(79)) == "XID 79: GPU has fallen off the bus"
    assert all(xid.text and "\n" not in xid.text for xid in XIDS.values())
