"""Running wrangler: the development server, and what a deployment would upload."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support.errors import SetupError
from support.paths import NODE, ROOT, STATE, WRANGLER
from support.setup import node_environment
from support.worker_config import DEVELOPMENT_FLAG, read_wrangler

WRAPPER = Path(__file__).with_name("wrangler_workerd.py")

_SIZE = re.compile(r"Total Upload: ([\d.]+) KiB / gzip: ([\d.]+) KiB")


def environment() -> dict[str, str]:
    """Variables that make wrangler start the project's own Python runtime."""
    return {**node_environment(), "MINIFLARE_WORKERD_PATH": str(WRAPPER)}


def dev_command(port: int, state: Path = STATE, ip: str = "127.0.0.1") -> list[str]:
    """``wrangler dev`` with the development flag, which ``wrangler.toml`` does not hold."""
    flags = [*read_wrangler().get("compatibility_flags", []), DEVELOPMENT_FLAG]
    command = [str(NODE), str(WRANGLER), "dev", "--ip", ip, "--port", str(port)]
    command += ["--inspector-port", "0", "--persist-to", str(state)]
    for flag in flags:
        command += ["--compatibility-flags", flag]
    return [*command, "--show-interactive-dev-session=false"]


def upload_size(project: Path = ROOT) -> tuple[float, float]:
    """What ``wrangler deploy`` would upload, in KiB: plain and gzipped. Nothing is uploaded.

    :raises SetupError: wrangler refuses the project.
    """
    result = subprocess.run(
        [str(NODE), str(WRANGLER), "deploy", "--dry-run"],
        cwd=project,
        env={**os.environ, **environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    found = _SIZE.search(result.stdout)
    if result.returncode != 0 or found is None:
        raise SetupError(f"wrangler deploy --dry-run failed:\n{result.stdout.strip()[-4000:]}")
    return float(found.group(1)), float(found.group(2))

