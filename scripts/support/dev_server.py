"""``scripts/dev``: everything set up, then ``wrangler dev`` until it is interrupted."""

from __future__ import annotations

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
from support.errors import SetupError
from support.packages import ensure_worker_packages
from support.paths import ROOT, STATE
from support.runtime_bundle import ensure_bundle
from support.wrangler import dev_command, environment

READY_SECONDS = 120.0
_ENDED_ON_REQUEST = (0, -signal.SIGINT, -signal.SIGTERM, 130, 143)
_TABLE = ("┌", "├", "│", "└", "Attaching additional modules")
_PROBE = "/agents/"
_HIDDEN = (
    "Ready on",
    "Unable to fetch the `Request.cf`",
    "getaddrinfo",
    "    at ",
    "No bindings",
    f"GET {_PROBE} 400",
)


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
    prepare()
    _check_port(ip, port)
    command = dev_command(port, state or STATE, ip)
    while True:
        code, was_ready = _run(command, ip, port)
        if code in _ENDED_ON_REQUEST or not was_ready:
            return 0 if code in _ENDED_ON_REQUEST else code
        print("\nThe server ended (see above). It starts again when src/ or wrangler.toml changes.")
        sys.stdout.flush()
        before = _watched()
        while _watched() == before:
            time.sleep(0.3)


def _watched() -> dict[Path, int]:
    """When what the Worker is made of was last changed."""
    files = [ROOT / "wrangler.toml", *(ROOT / "src").rglob("*.py")]
    return {file: file.stat().st_mtime_ns for file in files if file.is_file()}


def _run(command: list[str], ip: str, port: int) -> tuple[int, bool]:
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
    reader = threading.Thread(target=_copy_output, args=(process,), daemon=True)
    reader.start()
    ready = False
    try:
        ready = _wait_until_ready(process, ip, port)
        if ready:
            print(_welcome(port), flush=True)
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
            raise SetupError(f"port {port} on {ip} is not free ({error}): use --port") from None


def _copy_output(process: subprocess.Popen[str]) -> None:
    """Show wrangler's output without its list of modules and what it says about being offline."""
    assert process.stdout is not None
    for line in process.stdout:
        text = line.rstrip()
        if text and not text.startswith(_TABLE) and not any(part in text for part in _HIDDEN):
            print(text, flush=True)


def _wait_until_ready(process: subprocess.Popen[str], ip: str, port: int) -> bool:
    """Wait until the Python Worker itself has answered; False if wrangler ended first."""
    deadline = time.monotonic() + READY_SECONDS
    host = "127.0.0.1" if ip == "0.0.0.0" else ip
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection(host, port, timeout=30)
            with closing(connection):
                connection.request("GET", _PROBE)
                connection.getresponse().read()
            return True
        except (OSError, http.client.HTTPException):
            if time.monotonic() > deadline:
                _end(process)
                raise SetupError(f"no answer within {READY_SECONDS:.0f} s") from None
            time.sleep(0.1)
    return False


def _welcome(port: int) -> str:
    url = f"http://localhost:{port}"
    return (
        f"\nReady on {url}\n"
        f"  Chat in a page:      {url}/\n"
        f"  Chat in a terminal:  .venv/bin/palimpsest chat {url}/agents/assistant/default\n"
        "  Stop with Ctrl-C; conversations are kept in .state/.\n"
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
