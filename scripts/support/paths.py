"""Where things lie in the repository. Everything generated is git-ignored."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository's root."""

SOURCE = ROOT / "src"
CACHE = ROOT / ".cache"
"""Generated files that may be deleted at any time: the runtime bundle, snapshots, stamps."""

STATE = ROOT / ".state"
"""What the development server keeps between starts: the objects' databases."""

NODE_MODULES = ROOT / "node_modules"
NODE = NODE_MODULES / ".bin" / "node"
WRANGLER = NODE_MODULES / ".bin" / "wrangler"
PYTHON_MODULES = ROOT / "python_modules"
"""Packages vendored for the Worker; wrangler uploads this directory."""

TEST_MODULES = CACHE / "test_modules"
"""Packages that only tests inside workerd need; never uploaded."""

VENV = ROOT / ".venv"
WEB_SOURCE = SOURCE / "web"
WEB_BUILD = ROOT / "build" / "web"
"""The page as served: what ``wrangler.toml`` names as its assets directory."""

BUNDLE_CACHE = CACHE / "pyodide-bundle"
"""The directory in which workerd looks for its Python runtime."""

SNAPSHOTS = CACHE / "snapshots"
