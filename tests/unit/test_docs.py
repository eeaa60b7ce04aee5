"""Every Python block of the documentation runs.

Blocks marked ```` ```python ```` run on CPython, in order, in one namespace for each file; `await`
is allowed at the top. Blocks marked ```` ```python worker ```` are whole Workers and run under
workerd (tests/worker/test_docs_workers.py).
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def blocks(path: Path) -> list[tuple[int, str]]:
    """Line number and source of each block that runs on CPython."""
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in _BLOCK.finditer(text)]


DOCUMENTED = [path for path in FILES if blocks(path)]


@pytest.mark.parametrize("path", DOCUMENTED, ids=lambda path: path.name)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(run_blocks(path))


async def run_blocks(path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "documentation"}
    for line, source in blocks(path):
        code = compile(
            "\n" * (line - 1) + source,
            str(path),
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        result = eval(code, namespace)
        if inspect.isawaitable(result):
            await result


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_links_between_documents_hold(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
