"""Starting, watching, killing and restarting workerd."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType

from support.errors import SetupError
from support.paths import NODE_MODULES, SNAPSHOTS
from support.process import LoggedProcess
from support.runtime_bundle import ensure_bundle, installed_version
from support.worker_config import DEVELOPMENT_FLAG, WorkerDefinition, render_config

START_SECONDS = 60.0
SNAPSHOT_NAME = "snapshot.bin"


def workerd_binary() -> Path:
    """The native executable of the npm package ``workerd``.

    :raises SetupError: it is not installed.
    """
    machine = {"x86_64": "64", "aarch64": "arm64"}.get(os.uname().machine, "64")
    binary = NODE_MODULES / "@cloudflare" / f"workerd-linux-{machine}" / "bin" / "workerd"
    if not binary.is_file():
        raise SetupError("workerd is not installed: run npm ci")
    return binary


def free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class WorkerdError(Exception):
    """workerd did not start or ended early; the message carries the end of its log."""


class Workerd(LoggedProcess):
    """One Worker under workerd, with its own directory for configuration, log and state.

    Starting again after :meth:`stop` or :meth:`kill` serves the same state on the same port.
    """

    def __init__(
        self,
        worker: WorkerDefinition,
        directory: Path,
        *,
        port: int | None = None,
        snapshot: bool = True,
        options: Sequence[str] = (),
        extra_config: str = "",
        trusted_certificates: Sequence[str] = (),
    ) -> None:
        """
        :param directory: for the configuration, ``workerd.log`` and the databases (``state/``).
        :param snapshot: restore the memory snapshot of these modules, making it when missing.
        :param options: further command-line options of ``workerd serve``.
        :param extra_config: further fields of the configuration (see ``render_config``).
        :param trusted_certificates: PEM certificates that outgoing https trusts.
        """
        self.worker = worker.with_development_flag()
        self.directory = directory
        self.port = port or free_port()
        self.snapshot = snapshot
        self.options = list(options)
        self.extra_config = extra_config
        self.trusted_certificates = list(trusted_certificates)
        super().__init__(directory / "workerd.log")

    @property
    def url(self) -> str:
        """The address of the Worker, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket_url(self) -> str:
        """The address for WebSockets."""
        return f"ws://127.0.0.1:{self.port}"

    @property
    def state(self) -> Path:
        """The directory of the objects' databases."""
        return self.directory / "state"

    def __enter__(self) -> Workerd:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, path: str = "/") -> float:
        """Start and wait until a request to ``path`` is answered; returns the seconds it took."""
        if self.process is not None:
            raise WorkerdError("it is running already")
        python = DEVELOPMENT_FLAG in self.worker.compatibility_flags
        snapshot = ensure_snapshot(self.worker) if self.snapshot and python else None
        self.state.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config.capnp"
        text = render_config(
            self.worker,
            self.directory,
            self.state.resolve(),
            address=f"127.0.0.1:{self.port}",
            trusted_certificates=self.trusted_certificates,
            extra=self.extra_config,
        )
        config.write_text(text, encoding="utf-8")
        command = serve_command(config, snapshot) + self.options
        began = time.monotonic()
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_ready(began, path)
        return time.monotonic() - began

    def _wait_ready(self, began: float, path: str) -> None:
        assert self.process is not None
        while True:
            if self.process.poll() is not None:
                self.process = None
                raise WorkerdError(f"workerd ended while starting:\n{self.log_tail()}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                with closing(connection):
                    connection.request("GET", path)
                    connection.getresponse().read()
            except OSError:
                if time.monotonic() - began > START_SECONDS:
                    self.kill()
                    message = f"no answer within {START_SECONDS:.0f} s:\n{self.log_tail()}"
                    raise WorkerdError(message) from None
                time.sleep(0.02)
            else:
                return

    def resident_bytes(self) -> int:
        """The process's resident memory.

        :raises WorkerdError: it is not running.
        """
        if self.process is None:
            raise WorkerdError("it is not running")
        status = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def serve_command(config: Path, snapshot: Path | None = None) -> list[str]:
    """The command that serves ``config`` on the project's own runtime bundle."""
    command = [str(workerd_binary()), "serve", "--experimental"]
    command += ["--pyodide-bundle-disk-cache-dir", str(ensure_bundle())]
    if snapshot is not None:
        command += ["--python-snapshot-dir", str(snapshot), "--python-load-snapshot", SNAPSHOT_NAME]
    return [*command, str(config), "config"]


def ensure_snapshot(worker: WorkerDefinition) -> Path:
    """The directory of the memory snapshot of exactly this Worker, made when missing.

    Production restores a snapshot taken after the top level ran; doing the same locally makes a
    start quick and shows what is not safe in a snapshot.
    """
    versions = f"{installed_version('workerd')}-{installed_version('pyodide')}"
    directory = SNAPSHOTS / f"{versions}-{worker.digest()}"
    if (directory / SNAPSHOT_NAME).is_file():
        os.utime(directory)
        return directory
    work = SNAPSHOTS / f"making-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    (work / "snapshot").mkdir(parents=True)
    maker = Workerd(
        worker,
        work,
        snapshot=False,
        options=["--python-snapshot-dir", str(work / "snapshot"), "--python-save-snapshot"],
    )
    try:
        maker.start()
        _wait_for_file(work / "snapshot" / SNAPSHOT_NAME, maker)
    finally:
        maker.kill()
    directory.mkdir(parents=True, exist_ok=True)
    (work / "snapshot" / SNAPSHOT_NAME).replace(directory / SNAPSHOT_NAME)
    shutil.rmtree(work, ignore_errors=True)
    _drop_old_snapshots()
    return directory


def _wait_for_file(path: Path, maker: Workerd) -> None:
    deadline = time.monotonic() + START_SECONDS
    size = -1
    while time.monotonic() < deadline:
        if path.is_file():
            now = path.stat().st_size
            if now > 0 and now == size:
                return
            size = now
        time.sleep(0.1)
    raise WorkerdError(f"workerd made no memory snapshot:\n{maker.log_tail()}")


def _drop_old_snapshots(keep: int = 12) -> None:
    """Snapshots are about 38 MB each: keep only those used last."""
    found = sorted(SNAPSHOTS.glob("*-*-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for directory in found[keep:]:
        shutil.rmtree(directory, ignore_errors=True)
