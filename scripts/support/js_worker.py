"""JavaScript Workers to compare with: bundled by esbuild, run by the same workerd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.paths import CACHE, NODE_MODULES, ROOT
from support.setup import node_environment, run
from support.worker_config import WorkerDefinition, WorkerModule


def bundle_worker(
    entry: Path,
    object_classes: Mapping[str, str],
    *,
    aliases: Mapping[str, str] | None = None,
    compatibility_date: str = "2026-11-01",
) -> WorkerDefinition:
    """A Worker from a JavaScript or TypeScript main module and what it imports from npm.

    :param object_classes: binding name to Durable Object class.
    :param aliases: package names to replace, such as ``{"agents": "agents-legacy", "ai": "ai-6"}``
        for the older release under its alias in ``package.json``.
    :raises SetupError: esbuild refuses it.
    """
    key = "-".join([entry.stem, *sorted(Path(name).name for name in (aliases or {}).values())])
    target = CACHE / "js-workers" / f"{key}.mjs"
    command: list[str | Path] = [
        NODE_MODULES / ".bin" / "esbuild",
        entry,
        "--bundle",
        "--format=esm",
        "--target=es2024",
        "--conditions=workerd,worker,browser,import",
        "--main-fields=browser,module,main",
        "--external:cloudflare:*",
        "--external:node:*",
        "--define:process.env.NODE_ENV='production'",
        "--log-level=error",
        f"--outfile={target}",
    ]
    command += [f"--alias:{name}={other}" for name, other in (aliases or {}).items()]
    run(command, what=f"bundling {entry.relative_to(ROOT)}", env=node_environment())
    return WorkerDefinition(
        name=entry.stem,
        modules=[WorkerModule("main.mjs", target, "esModule")],
        compatibility_date=compatibility_date,
        compatibility_flags=["nodejs_compat"],
        object_bindings=dict(object_classes),
    )
