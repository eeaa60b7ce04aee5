"""A small writer of Cap'n Proto messages, enough for workerd's Python runtime bundle.

It writes one unpacked message of one segment whose root is a struct holding a list of structs.
The encoding is the one of the Cap'n Proto specification: 64-bit little-endian words, pointers that
are relative to the word after them, a tag word before a list of structs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

WORD = 8
_POINTER_STRUCT = 0
_POINTER_LIST = 1
_ELEMENT_BYTE = 2
_ELEMENT_COMPOSITE = 7


@dataclass(frozen=True, slots=True)
class StructValue:
    """One struct: its data section (whole words) and what each of its pointers points to.

    ``pointers`` holds bytes (a Data field; end Text with a NUL) or None for a null pointer.
    """

    data: bytes
    pointers: Sequence[bytes | None]


class _Segment:
    """The words written so far; space is taken at the end and never moves."""

    def __init__(self) -> None:
        self.words = bytearray()

    def allocate(self, words: int) -> int:
        """Take zeroed words at the end; returns the first one's index."""
        start = len(self.words) // WORD
        self.words.extend(bytes(words * WORD))
        return start

    def put_word(self, index: int, value: int) -> None:
        struct.pack_into("<Q", self.words, index * WORD, value)

    def put_bytes(self, index: int, value: bytes) -> None:
        self.words[index * WORD : index * WORD + len(value)] = value


def _offset(pointer: int, target: int) -> int:
    """A pointer's 30-bit offset: from the word after the pointer to its target."""
    return (target - pointer - 1) & 0x3FFF_FFFF


def _struct_sizes(data_words: int, pointers: int) -> int:
    return (data_words << 32) | (pointers << 48)


def _list_pointer(pointer: int, target: int, element: int, count: int) -> int:
    return _POINTER_LIST | (_offset(pointer, target) << 2) | (element << 32) | (count << 35)


def write_struct_list(structs: Sequence[StructValue]) -> bytes:
    """A message whose root struct has one pointer field: a list of ``structs``.

    All structs must have the same shape (data words, number of pointers).

    :raises ValueError: the list is empty, the shapes differ, or a data section is not whole words.
    """
    if not structs:
        raise ValueError("a Cap'n Proto bundle needs at least one struct")
    data_bytes, pointer_count = len(structs[0].data), len(structs[0].pointers)
    if data_bytes % WORD:
        raise ValueError("a struct's data section is whole 8-byte words")
    for value in structs:
        if (len(value.data), len(value.pointers)) != (data_bytes, pointer_count):
            raise ValueError("all structs of one list have the same shape")
    data_words = data_bytes // WORD
    struct_words = data_words + pointer_count

    segment = _Segment()
    root_pointer = segment.allocate(1)
    root = segment.allocate(1)
    segment.put_word(
        root_pointer,
        _POINTER_STRUCT | (_offset(root_pointer, root) << 2) | _struct_sizes(0, 1),
    )
    tag = segment.allocate(1)
    content_words = struct_words * len(structs)
    segment.put_word(root, _list_pointer(root, tag, _ELEMENT_COMPOSITE, content_words))
    segment.put_word(tag, (len(structs) << 2) | _struct_sizes(data_words, pointer_count))
    first = segment.allocate(content_words)
    for number, value in enumerate(structs):
        at = first + number * struct_words
        segment.put_bytes(at, value.data)
        for index, content in enumerate(value.pointers):
            if content is None:
                continue
            target = segment.allocate(-(-len(content) // WORD))
            segment.put_bytes(target, content)
            pointer = at + data_words + index
            segment.put_word(pointer, _list_pointer(pointer, target, _ELEMENT_BYTE, len(content)))
    header = struct.pack("<II", 0, len(segment.words) // WORD)
    return header + bytes(segment.words)
