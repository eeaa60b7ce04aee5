#!/usr/bin/env python3
"""What wrangler starts in workerd's place (``MINIFLARE_WORKERD_PATH``).

It adds the project's own Python runtime bundle, and a memory snapshot of exactly the modules that
wrangler has sent, so that a start takes a fraction of a second.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.errors import SetupError
from support.runtime_bundle import ensure_bundle
from support.worker_config import define_worker
from support.workerd import SNAPSHOT_NAME, WorkerdError, ensure_snapshot, workerd_binary


def snapshot_options(config: bytes) -> list[str]:
    """Options that restore a snapshot, if the files here are the modules in wrangler's ``config``.

    A file may have changed since wrangler read it; a snapshot of other code would run that code.
    """
    worker = define_worker(assets=False).with_development_flag()
    for module in worker.modules:
        if module.kind == "pythonModule" and module.path.read_bytes() not in config:
            return []
    try:
        directory = ensure_snapshot(worker)
    except (WorkerdError, SetupError) as error:
        print(f"no memory snapshot of this code can be made: {error}", file=sys.stderr)
        return []
    return ["--python-snapshot-dir", str(directory), "--python-load-snapshot", SNAPSHOT_NAME]


def main() -> None:
    """Become workerd, with the options added after its sub-command."""
    binary = str(workerd_binary())
    arguments = sys.argv[1:]
    if not arguments or arguments[0] != "serve":
        os.execv(binary, [binary, *arguments])
    options = ["--pyodide-bundle-disk-cache-dir", str(ensure_bundle())]
    if "-" in arguments:
        config = sys.stdin.buffer.read()
        if os.environ.get("PALIMPSEST_SNAPSHOT") != "0":
            options += snapshot_options(config)
        _replay(config)
    os.execv(binary, [binary, arguments[0], *options, *arguments[1:]])


def _replay(config: bytes) -> None:
    """Make ``config`` the standard input of the program that this process becomes."""
    with tempfile.TemporaryFile() as file:
        file.write(config)
        file.seek(0)
        os.dup2(file.fileno(), 0)


if __name__ == "__main__":
    main()
