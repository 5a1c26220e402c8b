"""Mounts: what a container sees, and what stays unchanged on the machine."""

import os
from pathlib import Path

import pytest

from kilonova.local.processnode.cri.api import ContainerStartError, Mount
from tests.local.processnode.shim.shim_site import ShimSite

MISSING = "/kilonova-test-models"


@pytest.fixture
def volume(shim_site: ShimSite) -> Path:
    folder = shim_site.folder / "volume"
    folder.mkdir()
    (folder / "file").write_text("hello\n")
    return folder


async def test_mount_points_are_created(shim_site: ShimSite, volume: Path) -> None:
    mounts = (
        Mount(volume, f"{MISSING}/llama"),
        Mount(volume / "file", "/etc/kilonova-test/deep/x"),
    )
    script = f"cat {MISSING}/llama/file /etc/kilonova-test/deep/x; echo new > {MISSING}/llama/new"
    state, text = await shim_site.shell(script, mounts=mounts)
    assert (state.exit_code, text) == (0, "hello\nhello\n")
    assert (volume / "new").read_text() == "new\n"
    assert not os.path.exists(MISSING)
    assert not os.path.exists("/etc/kilonova-test")


async def test_other_files_of_the_machine_stay_visible(shim_site: ShimSite, volume: Path) -> None:
    mounts = (Mount(volume, MISSING), Mount(volume / "file", "/etc/kilonova-test/x"))
    shown = shim_site.folder / "shown"
    shown.write_text("from outside\n")
    script = f"""
        cat {shown}; echo changed > {shown}
        test -e /proc/self/status && test -d /sys/kernel && echo x > /dev/null
        test -d /dev/pts && ls /etc/passwd && stat -c %a /tmp
    """
    state, text = await shim_site.shell(script, mounts=mounts)
    assert (state.exit_code, text) == (0, "from outside\n/etc/passwd\n1777\n")
    assert shown.read_text() == "changed\n"


async def test_overlay_takes_writes_beside_a_missing_mount_point(
    shim_site: ShimSite, volume: Path
) -> None:
    mounts = (Mount(volume / "file", "/etc/kilonova-test/x"),)
    script = (
        "echo mine > /etc/kilonova-mine && cat /etc/kilonova-mine && mv /etc/kilonova-mine /etc/b"
    )
    state, text = await shim_site.shell(script, mounts=mounts)
    assert (state.exit_code, text) == (0, "mine\n")
    assert not os.path.exists("/etc/kilonova-mine")
    assert not os.path.exists("/etc/b")


async def test_read_only(shim_site: ShimSite, volume: Path) -> None:
    mounts = (
        Mount(volume, MISSING, read_only=True),
        Mount(volume / "file", "/etc/kilonova-test/x", read_only=True),
    )
    script = f"echo a > {MISSING}/file; echo b > {MISSING}/new; echo c > /etc/kilonova-test/x"
    state, text = await shim_site.shell(script, mounts=mounts)
    assert state.exit_code != 0
    assert text.count("Read-only file system") == 3
    assert (volume / "file").read_text() == "hello\n"


async def test_over_what_exists(shim_site: ShimSite, volume: Path) -> None:
    hosts = Path("/etc/hosts").read_text()
    mounts = (Mount(volume / "file", "/etc/hosts"), Mount(volume, "/usr/share"))
    state, text = await shim_site.shell("cat /etc/hosts; ls /usr/share; ls /usr", mounts=mounts)
    assert state.exit_code == 0
    assert text.splitlines()[:2] == ["hello", "file"]
    assert "bin" in text.splitlines()
    assert Path("/etc/hosts").read_text() == hosts


async def test_a_mount_inside_another_is_made_there(shim_site: ShimSite, volume: Path) -> None:
    outer = shim_site.folder / "outer"
    outer.mkdir()
    mounts = (Mount(volume, f"{MISSING}/a/b"), Mount(outer, MISSING, read_only=True))
    state, text = await shim_site.shell(f"cat {MISSING}/a/b/file; touch {MISSING}/x", mounts=mounts)
    assert text.startswith("hello\n")
    assert "Read-only" in text
    assert state.exit_code != 0
    assert [each.name for each in outer.iterdir()] == ["a"]


async def test_through_a_link(shim_site: ShimSite, volume: Path) -> None:
    assert Path("/var/run").is_symlink()
    target = "/var/run/secrets/kubernetes.io/serviceaccount"
    state, text = await shim_site.shell(f"cat {target}/file", mounts=(Mount(volume, target),))
    assert (state.exit_code, text) == (0, "hello\n")
    assert not os.path.exists("/run/secrets/kubernetes.io")


async def test_below_the_folder_of_the_sources(shim_site: ShimSite, volume: Path) -> None:
    """The overlay covers the volume's own path; the mount still leads to the real one."""
    target = str(shim_site.folder / "missing" / "x")
    state, _ = await shim_site.shell(f"echo real > {target}/new", mounts=(Mount(volume, target),))
    assert state.exit_code == 0
    assert (volume / "new").read_text() == "real\n"
    assert not (shim_site.folder / "missing").exists()


async def test_over_the_folder_in_which_views_are_made(shim_site: ShimSite, volume: Path) -> None:
    """As with an emptyDir at /tmp, and the data of the node below /tmp."""
    deep = "/usr/share" + "/kilonova-test" * len(shim_site.folder.parts) + "/x"
    mounts = (Mount(volume, str(shim_site.folder)), Mount(volume / "file", deep))
    state, text = await shim_site.shell(f"cat {deep}; ls {shim_site.folder}", mounts=mounts)
    assert (state.exit_code, text) == (0, "hello\nfile\n")


async def test_mounts_below_an_overlay_stay(shim_site: ShimSite, volume: Path) -> None:
    script = "test -c /dev/null && ls -d /dev/pts/ptmx && mountpoint -q /dev/shm && cat /dev/kn/x"
    mounts = (Mount(volume / "file", "/dev/kn/x"),)
    state, text = await shim_site.shell(script, mounts=mounts)
    assert (state.exit_code, text) == (0, "/dev/pts/ptmx\nhello\n")


async def test_missing_mount_source(shim_site: ShimSite) -> None:
    with pytest.raises(ContainerStartError, match=r'mounting at "/x": No such file.*: /no/such'):
        await shim_site.start("true", mounts=(Mount(Path("/no/such"), "/x"),))


async def test_directory_over_a_file(shim_site: ShimSite, volume: Path) -> None:
    with pytest.raises(ContainerStartError, match=r'mounting at "/etc/passwd": not a directory'):
        await shim_site.start("true", mounts=(Mount(volume, "/etc/passwd"),))


async def test_a_command_from_a_mount(shim_site: ShimSite, volume: Path) -> None:
    tool = volume / "tool"
    tool.write_text("#!/bin/sh\npwd\n")
    tool.chmod(0o755)
    state = await shim_site.run("./tool", folder=MISSING, mounts=(Mount(volume, MISSING),))
    assert shim_site.text(state.id) == f"{MISSING}\n"


async def test_a_hostname_alone(shim_site: ShimSite) -> None:
    own = os.uname().nodename
    _, text = await shim_site.shell("hostname", hostname="pod-3")
    assert text == "pod-3\n"
    assert os.uname().nodename == own


async def test_mounts_are_visible_to_another_user(shim_site: ShimSite, volume: Path) -> None:
    volume.chmod(0o755)
    state, text = await shim_site.shell(
        f"id -u; cat {MISSING}/file", user=1234, mounts=(Mount(volume, MISSING),)
    )
    assert (state.exit_code, text) == (0, "1234\nhello\n")


async def test_no_mount_is_left_on_the_machine(shim_site: ShimSite, volume: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    await shim_site.run("true", mounts=(Mount(volume, MISSING), Mount(volume, "/etc/kn")))
    assert Path("/proc/self/mountinfo").read_text() == before


async def test_hidden_directory_contains_only_its_mounts(shim_site: ShimSite, volume: Path) -> None:
    secret, own = shim_site.folder / "secret", shim_site.folder / "secret" / "pods" / "own"
    own.mkdir(parents=True)
    (secret / "ca.key").write_text("key\n")
    (own / "file").write_text("mine\n")
    mounts = (Mount(own, str(own)), Mount(volume, MISSING), Mount(volume / "file", "/etc/hosts"))
    script = f"""
        ls {secret} {secret}/pods; cat {own}/file {MISSING}/file /etc/hosts
        umount {secret} 2>/dev/null && echo uncovered
        cat {secret}/ca.key 2>/dev/null || echo hidden
        cat /proc/{os.getpid()}/root{secret}/ca.key 2>/dev/null || echo unreachable
        echo more > {own}/more
    """
    state, text = await shim_site.shell(script, mounts=mounts, hidden=(str(secret),))
    listing = f"{secret}:\npods\n\n{secret}/pods:\nown\n"
    assert text == f"{listing}mine\nhello\nhello\nhidden\nunreachable\n"
    assert state.exit_code == 0
    assert (own / "more").read_text() == "more\n"
    assert (secret / "ca.key").read_text() == "key\n"


@pytest.mark.parametrize("read_only", [False, True])
async def test_hidden_directory_is_hidden_in_every_mount(
    shim_site: ShimSite, volume: Path, read_only: bool
) -> None:
    around = shim_site.folder / "around"
    secret, own = around / "data" / "secret", around / "data" / "secret" / "own"
    own.mkdir(parents=True)
    (secret / "ca.key").write_text("key\n")
    (own / "file").write_text("mine\n")
    (around / "data" / "file").write_text("shared\n")
    (around / "link").symlink_to(secret / "ca.key")
    mounts = (
        Mount(around, MISSING, read_only),
        Mount(around, str(around), read_only),
        Mount(around, str(own / "around"), read_only),
        Mount(own, str(own), read_only),
    )
    script = f"""
        for around in {MISSING} {around} {own}/around; do
            ls $around/data; cat $around/data/file
            ls $around/data/secret
            cat $around/data/secret/ca.key 2>/dev/null || echo hidden
        done
        cat {MISSING}/link 2>/dev/null || echo hidden
        cat {own}/file
    """
    (own / "around").mkdir()
    state, text = await shim_site.shell(script, mounts=mounts, hidden=(str(secret),))
    shown = "file\nsecret\nshared\n"
    assert text == f"{shown}hidden\n{shown}own\nhidden\n{shown}hidden\nhidden\nmine\n"
    assert state.exit_code == 0
    assert (secret / "ca.key").read_text() == "key\n"


async def test_link_into_a_hidden_directory_is_not_mounted(shim_site: ShimSite) -> None:
    secret, link = shim_site.folder / "secret", shim_site.folder / "link"
    secret.mkdir()
    link.symlink_to(secret)
    with pytest.raises(ContainerStartError, match=f"it leads to {secret}"):
        await shim_site.shell("true", mounts=(Mount(link, MISSING),), hidden=(str(secret),))
