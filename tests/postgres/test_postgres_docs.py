"""The documentation's blocks marked ```` ```python postgres ```` run against a server."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.conftest import Client
from tests.support.doc_blocks import blocks_labelled

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = [
    (path, line, source)
    for path in sorted(DOCS.glob("*.md"))
    for line, source in blocks_labelled(path, "python postgres")
]


def test_there_is_such_a_block() -> None:
    assert BLOCKS


@pytest.mark.parametrize(
    ("path", "line", "source"), BLOCKS, ids=[f"{path.name}-{line}" for path, line, _ in BLOCKS]
)
async def test_a_block_runs(bare_client: Client, path: Path, line: int, source: str) -> None:
    code = compile(
        "\n" * (line - 1) + source,
        str(path),
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    namespace: dict[str, Any] = {"DATABASE_URL": bare_client.address}
    result = eval(code, namespace)
    assert inspect.isawaitable(result)
    await result
