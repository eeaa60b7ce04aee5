"""``scripts/dev``: everything set up, then ``wrangler dev`` until it is interrupted."""

from __future__ import annotations

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from support import setup
from support.dev_output import PROBE, RELOADING, DevOutput
from support.errors import SetupError
from support.packages import ensure_worker_packages
from support.paths import ROOT, STATE
from support.runtime_bundle import ensure_bundle
from support.wrangler import dev_command, environment

READY_SECONDS = 120.0
_ENDED_ON_REQUEST = (0, -signal.SIGINT, -signal.SIGTERM, 130, 143)


def prepare() -> None:
    """Install and build all that serving needs; quick and offline when nothing changed.

    :raises SetupError: something is missing or failed.
    """
    setup.ensure_python()
    setup.ensure_node()
    ensure_worker_packages()
    ensure_bundle()
    setup.ensure_page()


def serve(port: int, ip: str, state: Path | None) -> int:
    """Serve until interrupted; returns the exit code.

    :raises SetupError: set-up failed, the port is taken, or wrangler did not start.
    """
    _check_port(ip, port)
    prepare()
    _check_port(ip, port)  # setting up may have taken minutes
    state = (state or STATE).resolve()
    command = dev_command(port, state, ip)
    sources = _Sources()
    was_ready = False
    while True:
        sources.note()
        code, is_ready = _run(command, ip, port, state, sources)
        was_ready = was_ready or is_ready
        if code in _ENDED_ON_REQUEST or not was_ready:
            return 0 if code in _ENDED_ON_REQUEST else code
        print("\nThe server ended (see above). It starts again when src/ or wrangler.toml changes.")
        sys.stdout.flush()
        while not sources.have_changed():
            time.sleep(0.3)


class _Sources:
    """What the Worker is made of, as it was when wrangler last read it.

    A correction that is saved while the server is still ending counts as a change.
    """

    def __init__(self) -> None:
        self._read = self._now()

    def note(self) -> None:
        """Wrangler reads the files now."""
        self._read = self._now()

    def have_changed(self) -> bool:
        """Whether a file was changed, added or removed since."""
        return self._now() != self._read

    @staticmethod
    def _now() -> dict[Path, int]:
        files = [ROOT / "wrangler.toml", *(ROOT / "src").rglob("*.py")]
        return {file: file.stat().st_mtime_ns for file in files if file.is_file()}


def _run(
    command: list[str], ip: str, port: int, state: Path, sources: _Sources
) -> tuple[int, bool]:
    """Run wrangler until it ends: its exit code, and whether it was ready before."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )

    def stop(number: int, frame: object) -> None:
        del number, frame
        if process.poll() is not None:
            sys.exit(0)  # it waits for a change
        _end(process)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    reader = threading.Thread(target=_copy_output, args=(process, sources), daemon=True)
    reader.start()
    ready = False
    try:
        ready = _wait_until_ready(process, ip, port)
        if ready:
            print(_welcome(port, state), flush=True)
        code = process.wait()
    finally:
        _end(process)
        reader.join(timeout=5)
    return code, ready


def _check_port(ip: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ip, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SetupError(
                    f"port {port} on {ip} is in use, perhaps by another scripts/dev: choose "
                    "another one with --port"
                ) from None
            raise SetupError(f"cannot listen on port {port} of {ip}: {error}") from None


def _copy_output(process: subprocess.Popen[str], sources: _Sources) -> None:
    """Show of wrangler's output what a user of the development server can act on."""
    assert process.stdout is not None
    output = DevOutput(colors=sys.stdout.isatty())
    for line in process.stdout:
        if RELOADING in line:
            sources.note()
        text = output.shown(line)
        if text is not None:
            print(text, flush=True)


def _wait_until_ready(process: subprocess.Popen[str], ip: str, port: int) -> bool:
    """Wait until the Python Worker itself has answered; False if wrangler ended first."""
    deadline = time.monotonic() + READY_SECONDS
    host = "127.0.0.1" if ip == "0.0.0.0" else ip
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection(host, port, timeout=30)
            with closing(connection):
                connection.request("GET", PROBE)
                connection.getresponse().read()
            return True
        except (OSError, http.client.HTTPException):
            if time.monotonic() > deadline:
                _end(process)
                raise SetupError(f"no answer within {READY_SECONDS:.0f} s") from None
            time.sleep(0.1)
    return False


def _welcome(port: int, state: Path) -> str:
    url = f"http://localhost:{port}"
    kept = state.relative_to(ROOT) if state.is_relative_to(ROOT) else state
    return (
        f"\nReady on {url}\n"
        f"  Chat in a page:      {url}/\n"
        f"  Chat in a terminal:  .venv/bin/palimpsest chat {url}/agents/assistant/default\n"
        f"  Stop with Ctrl-C; conversations are kept in {kept}/.\n"
    )


def _end(process: subprocess.Popen[str]) -> None:
    """End wrangler and what it started, politely first."""
    if process.poll() is not None:
        return
    for number, seconds in ((signal.SIGTERM, 8), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            pass
        return
