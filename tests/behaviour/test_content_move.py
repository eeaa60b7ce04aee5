"""A database in which ``assistant_messages`` held the content opens and keeps everything."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from palimpsest.errors import SqlError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, dump_json, text_message
from palimpsest.search.search import search_messages
from palimpsest.session.session import Session
from palimpsest.store.message_tables import PIECES
from palimpsest.store.payloads import IN_ROW_BYTES
from palimpsest.store.reads import UNREADABLE
from palimpsest.store.search_index import SESSION_SPAN, SearchIndex

EARLIER = Path(__file__).with_name("earlier_database.sql")

FILLER = "filler "

PLACE = "session, id, seq, run, as_of, path_length, path_tokens, path_bytes"
OWN = "role, created_at, tokens, bytes, revision"

OTHERS: list[Message] = [
    text_message("漢字", "user", "明天我们讨论部署方案，请带上文档。"),
    {
        "id": "nul\x00 and 😀",
        "role": "user",
        "parts": [
            {"type": "text", "text": "a lone \ud800 surrogate, a \x00, a \u2028 kumquat"},
            {"type": "data-number", "data": {"big": 2**63 + 1, "real": 1e300}},
        ],
        "extra": {"unknown": [None, True, "", {}]},
    },
    {
        "id": "tool",
        "role": "assistant",
        "parts": [
            {
                "type": "tool-search",
                "toolCallId": "t1",
                "state": "output-available",
                "input": {"query": 'it\'s; "quoted"'},
                "output": {"city": "Porto"},
            }
        ],
    },
    {
        "id": "picture",
        "role": "user",
        "parts": [
            {
                "type": "file",
                "mediaType": "image/png",
                "url": f"data:image/png;base64,{base64.b64encode(bytes(9000)).decode()}",
                "filename": "zebra.png",
            }
        ],
    },
    text_message("long", "user", f"start {FILLER * 100_000}pomegranate"),
    text_message("longer", "user", f"begin {FILLER * 140_000}persimmon"),
    text_message("longest", "user", f"begin {FILLER * 230_000}tamarind"),
    {
        "id": "wide",
        "role": "assistant",
        "parts": [
            {"type": "text", "text": f"quince {FILLER * 60_000}"},
            {
                "type": "tool-read",
                "toolCallId": "t2",
                "state": "output-available",
                "input": {},
                "output": f"{FILLER * 60_000}loquat",
            },
        ],
    },
    text_message("empty", "user", ""),
]
"""The messages of the session ``others``, but for its last, which is no JSON."""


def write_earlier(host: Host) -> None:
    """Bring the database into the earlier form."""
    host.sql.execute("drop table if exists palimpsest_schema")
    host.sql.execute(EARLIER.read_text(encoding="utf-8"))


def ids(messages: list[Message]) -> list[str]:
    return [message["id"] for message in messages]


async def found(session: Session, word: str) -> list[str]:
    return sorted(result.id for result in await session.search(f'"{word}"'))


async def test_every_value_of_a_message_is_kept(host: Any) -> None:
    write_earlier(host)
    select = f"select {PLACE}, {OWN}, extra, content from assistant_messages order by session, seq"
    before = host.sql.execute(select)
    words = "select doc, row, message_id, role, speaker, created_at, said_at, sitting, words,"
    words += " traits, text, tools, about from assistant_search order by doc"
    indexed = host.sql.execute(words)
    SearchIndex(host.sql)
    view = "assistant_ordered_messages"
    after = host.sql.execute(select.replace("assistant_messages", view))
    assert [row[:13] for row in after] == [row[:13] for row in before]
    for (*_, was_extra, was), (*values, extra, content) in zip(before, after, strict=True):
        if len(was.encode()) > IN_ROW_BYTES:
            assert (extra, content) == (was_extra | PIECES, "null")
            key = values[0] * SESSION_SPAN + values[2]
            pieces = host.sql.execute(
                "select content from assistant_message_pieces where key = ?", key
            )
            assert pieces == [[was]]
        else:
            assert (extra, content) == (was_extra, was)
    assert host.sql.execute(words) == indexed
    host.sql.execute("insert into assistant_fts (assistant_fts) values ('integrity-check')")
    kinds = host.sql.execute(
        "select distinct typeof(created_at), typeof(said_at), typeof(sitting), typeof(words),"
        " typeof(traits), typeof(row), typeof(tokens), typeof(bytes), typeof(extra),"
        " typeof(revision) from assistant_fts"
    )
    assert kinds == [["integer"] * 10]


async def test_what_a_session_shows_is_kept(host: Any) -> None:
    write_earlier(host)
    session = Session.create(host)
    assert ids(await session.get_originals()) == [
        *(f"m{n}" for n in range(12) if n != 6), "c1",
    ]  # fmt: skip
    history = await session.get_history()
    assert ids(history) == ["m0", "compaction_overlay-1", "m7", "m8", "m9", "m10", "m11", "c1"]
    assert history[4]["metadata"]["forgotten"] is True
    assert ids(await session.get_history("b2")) == ["m0", "m1", "m2", "m3", "m4", "b1", "b2"]
    assert ids(await session.get_history("root")) == ["root"]
    edited = "the edited note says marmalade twice, marmalade"
    assert await session.get_message("m3") == text_message("m3", "assistant", edited)
    assert await session.get_created_at("m3") == 1_700_004_000_000
    assert await found(session, "marmalade") == ["m3"]
    assert await found(session, "walrus") == ["b1"]
    assert not await found(session, "note 9")
    total = (await session.get_recent_history(10**6)).total_content_bytes
    assert total == sum(len(dump_json(one)) for one in await session.get_originals())
    cleared = Session.create(host).for_session("cleared")
    assert ids(await cleared.get_history()) == ["y"]


async def test_messages_of_every_kind_are_kept(host: Any) -> None:
    write_earlier(host)
    session = Session.create(host).for_session("others")
    *whole, last = await session.get_history()
    assert whole == OTHERS
    assert last["id"] == "last"
    assert last["parts"][0]["type"] == UNREADABLE
    for message in OTHERS:
        assert await session.get_message(message["id"]) == message
    for word, identifier in (
        ("pomegranate", "long"), ("persimmon", "longer"), ("tamarind", "longest"),
        ("loquat", "wide"), ("zebra", "picture"), ("Porto", "tool"), ("部署", "漢字"),
        ("kumquat", "nul\x00 and 😀"),
    ):  # fmt: skip
        assert await found(session, word) == [identifier], word
    reported = [one for one in host.logged if one.get("event") == "session.unreadable"]
    assert {one["messageId"] for one in reported} == {"last"}


async def test_the_session_goes_on(host: Any) -> None:
    write_earlier(host)
    session = Session.create(host).for_session("others")
    assert not (await session.append_message(text_message("long", "user", "other"))).inserted
    assert (await session.append_message(text_message("new", "user", "a walrus"))).inserted
    await session.append_message(text_message("aside", "user", "elsewhere"), "tool")
    assert await session.update_message(text_message("longest", "user", "now short"))
    assert await session.update_message(text_message("last", "user", "repaired"))
    assert await session.delete_messages(["longer", "picture"]) == ["longer", "picture"]
    await session.forget(["long"])
    for word in ("pomegranate", "persimmon", "tamarind", "zebra"):
        assert not await found(session, word)
    assert await found(session, "walrus") == ["new"]
    kept = [message["id"] for message in OTHERS if message["id"] not in ("longer", "picture")]
    assert ids(await session.get_history("new")) == [*kept, "last", "new"]
    assert ids(await session.get_history("aside")) == [*kept[:3], "aside"]
    for table in ("assistant_message_pieces", "assistant_media", "assistant_media_refs"):
        assert host.sql.execute(f"select count(*) from {table}") == [
            [1 if table == "assistant_message_pieces" else 0]
        ]
    recent = await session.get_recent_history(10**8, leaf_id="new")
    sizes = [len(dump_json(one).encode()) for one in await session.get_history("new")]
    assert recent.total_content_bytes == sum(sizes)
    host.sql.execute("insert into assistant_fts (assistant_fts) values ('integrity-check')")
    await session.clear_messages()
    assert await session.get_history() == []
    assert ids(await Session.create(host).get_history("root")) == ["root"]


async def test_it_is_moved_once(host: Any) -> None:
    write_earlier(host)
    before = await Session.create(host).get_history()
    woken = host.restarted()
    woken.sql.rows_written = 0
    assert await Session.create(woken).get_history() == before
    assert woken.sql.rows_written == 0
    names = {row[0] for row in woken.sql.execute("select name from sqlite_master")}
    assert not [name for name in names if "wide" in name or "with_content" in name]


@pytest.mark.parametrize("statement", ["drop table assistant_fts", "create view assistant_search"])
async def test_a_move_that_fails_leaves_everything_as_it_was(
    host: Any, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    write_earlier(host)
    schema = host.sql.execute("select name, sql from sqlite_master order by name")
    rows = host.sql.execute("select * from assistant_messages")
    plain = host.sql.execute

    def failing(sql: str, *bindings: Any) -> Any:
        if sql.strip().startswith(statement):
            raise SqlError("no more")
        return plain(sql, *bindings)

    monkeypatch.setattr(host.sql, "execute", failing)
    with pytest.raises(SqlError):
        SearchIndex(host.sql)
    monkeypatch.undo()
    assert host.sql.execute("select name, sql from sqlite_master order by name") == schema
    assert host.sql.execute("select * from assistant_messages") == rows
    assert ids(await Session.create(host).get_history("root")) == ["root"]


async def test_a_database_of_the_form_before_is_moved_too(host: Any) -> None:
    write_earlier(host)
    host.sql.execute("update palimpsest_schema set version = 3 where component = 'messages'")
    host.sql.execute(
        "create view assistant_new_messages as select * from assistant_messages limit 0"
    )
    assert ids(await Session.create(host).get_history("root")) == ["root"]
    assert not host.sql.execute("select 1 from sqlite_master where name = 'assistant_new_messages'")


async def test_a_message_without_its_index_row_is_added_anew_after_the_move(host: Any) -> None:
    write_earlier(host)
    key = SESSION_SPAN + 14
    host.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", key)
    session = Session.create(host)
    assert ids(await session.get_originals("b1"))[-1] == "b1"
    assert await session.get_message("b2") is None
    assert (await session.append_message(text_message("b2", "user", "otter"), "b1")).inserted
    assert ids(await session.get_originals("b2"))[-2:] == ["b1", "b2"]
    assert await found(session, "otter") == ["b2"]
    assert not (await session.append_message(text_message("b2", "user", "x"), "b1")).inserted


async def test_an_index_without_messages_keeps_its_words(host: Any) -> None:
    write_earlier(host)
    host.sql.execute(
        "drop view assistant_ordered_messages; drop table assistant_messages;"
        " delete from palimpsest_schema where component = 'messages'"
    )
    index = SearchIndex(host.sql)
    for word, identifier in (("walrus", "b1"), ("persimmon", "longer"), ("部署", "漢字")):
        assert search_messages(index, word, session_id=None)[0].id == identifier
    index.update("", 13, text_message("b1", "user", "otter"), 1)
    assert not search_messages(index, '"walrus"', session_id=None)
    assert search_messages(index, '"otter"', session_id=None)[0].id == "b1"
