"""The offline runtime: the Cap'n Proto message, the adapted glue, and its refusals."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.capnp import StructValue, write_struct_list
from support.errors import SetupError
from support.paths import NODE_MODULES
from support.runtime_bundle import adapt_glue, check_versions, installed_version


def words_of(message: bytes) -> tuple[int, ...]:
    count, length = struct.unpack_from("<II", message)
    assert count == 0
    assert len(message) == 8 + length * 8
    return struct.unpack_from(f"<{length}Q", message, 8)


def read_list(message: bytes) -> list[tuple[int, list[bytes | None]]]:
    """An independent reader: the data word and the byte pointers of each struct."""
    words = words_of(message)
    body = message[8:]

    def target(index: int) -> int:
        offset = (words[index] & 0xFFFF_FFFF) >> 2
        return index + 1 + (offset - (1 << 30) if offset & (1 << 29) else offset)

    root = target(0)
    assert words[0] >> 32 == 1 << 16
    tag_at = target(root)
    assert words[root] & 3 == 1
    assert (words[root] >> 32) & 7 == 7
    tag = words[tag_at]
    count, data_words, pointers = (tag & 0xFFFF_FFFF) >> 2, (tag >> 32) & 0xFFFF, tag >> 48
    assert words[root] >> 35 == count * (data_words + pointers)
    found: list[tuple[int, list[bytes | None]]] = []
    for number in range(count):
        at = tag_at + 1 + number * (data_words + pointers)
        contents: list[bytes | None] = []
        for index in range(at + data_words, at + data_words + pointers):
            if words[index] == 0:
                contents.append(None)
                continue
            size = words[index] >> 35
            start = target(index) * 8
            contents.append(body[start : start + size])
        found.append((words[at], contents))
    return found


def test_a_message_can_be_read_back() -> None:
    structs = [
        StructValue(struct.pack("<Q", 7), (b"name\0", b"x" * 17, None)),
        StructValue(struct.pack("<Q", 8), (b"", None, b"12345678")),
    ]
    assert read_list(write_struct_list(structs)) == [
        (7, [b"name\0", b"x" * 17, None]),
        (8, [b"", None, b"12345678"]),
    ]


def test_structs_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="same shape"):
        write_struct_list([StructValue(bytes(8), ()), StructValue(bytes(8), (b"",))])
    with pytest.raises(ValueError, match="whole"):
        write_struct_list([StructValue(bytes(3), ())])
    with pytest.raises(ValueError, match="at least one"):
        write_struct_list([])


@pytest.fixture(scope="module")
def glue() -> str:
    path = NODE_MODULES / "pyodide" / "pyodide.asm.mjs"
    if not path.is_file():
        pytest.fail("npm packages are missing: run scripts/test once")
    return path.read_text(encoding="utf-8")


def test_the_glue_loses_what_workerd_forbids(glue: str) -> None:
    adapted = adapt_glue(glue)
    for forbidden in (
        "new WebAssembly.Module(",
        "WebAssembly.instantiate(",
        "Date.now()",
        "crypto.getRandomValues(",
        "eval(",
    ):
        found = adapted.count(forbidden)
        assert found == 0, f"{forbidden} is left {found} times"
    assert adapted.count("export{_createPyodideModule}") == 1


def test_another_glue_is_refused_with_a_reason(glue: str) -> None:
    with pytest.raises(SetupError, match="library loading"):
        adapt_glue(glue.replace("function loadLibData(){", "function load(){"))


def test_versions_that_do_not_fit_are_refused() -> None:
    check_versions("1.20261117.1", "314.0.6")
    with pytest.raises(SetupError, match=r"pyodide 314\.0\.6, but 314\.0\.9"):
        check_versions("1.20261117.1", "314.0.9")
    with pytest.raises(SetupError, match="known to fit only"):
        check_versions("1.20270101.0", "314.0.6")


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="npm ci"):
        installed_version("pyodide", tmp_path)
