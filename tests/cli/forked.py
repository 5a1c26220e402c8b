"""Runs the command line in forked processes with preloaded modules.

Imports take most of the time of a short command, and the tests run hundreds of them. A fork server
imports the modules once (`preloaded`) and forks per command; `up --detach` forks again for the
cluster in the background. What a real start imports and executes is tested elsewhere (`test_help`,
`test_tour`, `up.test_startup_imports`).
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import kilonova.cli

_TIMEOUT_SECONDS = 60.0
_PROGRAM = str(Path(kilonova.cli.__file__).with_name("__main__.py"))
_DETACHED = "kilonova.cli.up.detached"
_MAX_DESCRIPTORS = 4096
_Popen = subprocess.Popen
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.cli.preloaded"])


@dataclass(frozen=True)
class CompletedCommand:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def run_forked(
    arguments: Sequence[str], environment: dict[str, str], directory: Path
) -> CompletedCommand:
    """Run `kilonova ARGUMENTS` to its end."""
    with tempfile.TemporaryDirectory() as output:
        out, err = Path(output, "out"), Path(output, "err")
        process = _forks.Process(
            target=_run_command, args=(arguments, environment, directory, out, err)
        )
        process.start()
        process.join(_TIMEOUT_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(
                f"kilonova {' '.join(arguments)} has not ended within {_TIMEOUT_SECONDS:.0f} s"
            )
        return CompletedCommand(process.exitcode, out.read_text(), err.read_text())


def _run_command(
    arguments: Sequence[str], environment: dict[str, str], directory: Path, out: Path, err: Path
) -> None:
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT),
        (2, err, os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = [_PROGRAM, *arguments]
    subprocess.Popen = _start_process
    kilonova.cli.main()


def _start_process(command: Sequence[str], **options: Any) -> Any:
    """What `subprocess.Popen` does, by a fork if the command is a cluster in the background."""
    if [*command[1:4]] != ["-P", "-m", _DETACHED]:
        return _Popen(command, **options)
    return _ForkedCluster(command, **options)


class _ForkedCluster:
    """A cluster in the background; has what the command uses of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdout: IO[bytes],
        cwd: Path,
        pass_fds: tuple[int],
        **_: Any,
    ) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            _run_detached(command[4:], stdout.fileno(), cwd, *pass_fds)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _run_detached(arguments: Sequence[str], log: int, directory: Path, report_fd: int) -> NoReturn:
    """Run a cluster in this new process as if it had been executed, to its end."""
    from kilonova.cli.up import detached

    subprocess.Popen = _Popen
    code = 1
    try:
        os.setsid()
        os.chdir(directory)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, report_fd)
        os.closerange(report_fd + 1, _MAX_DESCRIPTORS)
        sys.argv = [str(detached.__file__), *arguments]
        detached.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
