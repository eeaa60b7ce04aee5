"""Workers on the npm packages that palimpsest is measured against."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.paths import NODE_MODULES, ROOT
from support.worker_config import WorkerDefinition, WorkerModule

HERE = Path(__file__).parent


def peer_worker(name: str) -> WorkerDefinition:
    """The Worker ``bench/peers/NAME.mjs``, bundled for workerd, with the object class ``Bench``.

    :raises subprocess.CalledProcessError: esbuild failed; its output is shown.
    """
    bundle = ROOT / ".cache" / "bench" / f"{name}.mjs"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(NODE_MODULES / ".bin" / "esbuild"),
        str(HERE / f"{name}.mjs"),
        "--bundle",
        "--format=esm",
        "--target=esnext",
        "--platform=node",
        "--main-fields=module,main",
        # A dependency of the packages is CommonJS and asks for Node's own modules.
        "--banner:js=import { createRequire } from 'node:module'; "
        "const require = createRequire('/');",
        "--conditions=workerd,worker,browser",
        "--external:node:*",
        "--external:cloudflare:*",
        "--log-level=warning",
        f"--outfile={bundle}",
    ]
    subprocess.run(command, check=True, cwd=ROOT)
    return WorkerDefinition(
        name=name.replace("_", "-"),
        modules=[WorkerModule(bundle.name, bundle, "esModule")],
        compatibility_date="2026-10-01",
        compatibility_flags=["experimental"],
        object_bindings={"Bench": "Bench"},
    )
