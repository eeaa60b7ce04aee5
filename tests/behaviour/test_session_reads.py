"""Reading histories: overlays, pages, budgets, large messages, media, rows that do not parse."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest

from palimpsest.errors import CompactionRangeError, InvalidMessageError, UnknownMessageError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message
from palimpsest.session.manager import SessionManager
from palimpsest.session.session import Session
from palimpsest.store.reads import UNREADABLE


def text(identifier: str, words: str = "hello", role: str = "user") -> Message:
    return {"id": identifier, "role": role, "parts": [{"type": "text", "text": words}]}


async def filled(host: Host, count: int) -> Session:
    session = Session.create(host)
    await session.append_messages(text(f"m{n}", f"message number {n}") for n in range(count))
    return session


def ids(messages: list[Message]) -> list[str]:
    return [message["id"] for message in messages]


def shown(messages: list[Message]) -> list[str]:
    """Ids, with the texts of overlays in place of theirs."""
    return [
        message["parts"][0]["text"] if message["id"].startswith("compaction_") else message["id"]
        for message in messages
    ]


# -- overlays ---------------------------------------------------------------------------------


async def test_an_overlay_is_shown_in_place_of_its_range(host: Host) -> None:
    session = await filled(host, 6)
    stored = await session.add_compaction("one to three", "m1", "m3")
    assert shown(await session.get_history()) == ["m0", "one to three", "m4", "m5"]
    assert ids(await session.get_originals()) == [f"m{n}" for n in range(6)]
    assert await session.get_compactions() == [stored]
    assert (stored.from_message_id, stored.to_message_id) == ("m1", "m3")
    assert await session.get_path_length() == 6


async def test_the_synthetic_message_is_the_same_at_every_read(host: Any) -> None:
    session = await filled(host, 4)
    await session.add_compaction("summary", "m0", "m2")
    first = json.dumps(await session.get_history())
    await host.advance(100)
    assert json.dumps(await session.get_history()) == first
    session = Session.create(host.restarted())
    assert json.dumps(await session.get_history()) == first


async def test_the_newest_of_overlays_with_one_beginning_wins(host: Host) -> None:
    session = await filled(host, 8)
    await session.add_compaction("long", "m1", "m6")
    await session.add_compaction("short", "m1", "m3")
    assert shown(await session.get_history()) == ["m0", "short", "m4", "m5", "m6", "m7"]


async def test_an_earlier_beginning_beats_a_newer_overlay_inside_it(host: Host) -> None:
    session = await filled(host, 8)
    await session.add_compaction("outer", "m1", "m5")
    await session.add_compaction("inner", "m2", "m6")
    assert shown(await session.get_history()) == ["m0", "outer", "m6", "m7"]
    await session.add_compaction("last", "m6", "m6")
    assert shown(await session.get_history()) == ["m0", "outer", "last", "m7"]


async def test_an_overlay_shows_on_every_path_that_holds_its_range(host: Host) -> None:
    session = await filled(host, 5)
    await session.append_message(text("before"), "m1")
    await session.append_message(text("behind"), "m4")
    await session.add_compaction("two and three", "m2", "m3")
    assert shown(await session.get_history()) == ["m0", "m1", "two and three", "m4", "behind"]
    assert shown(await session.get_history("before")) == ["m0", "m1", "before"]
    assert shown(await session.get_history("m3")) == ["m0", "m1", "two and three"]
    assert shown(await session.get_history("m2")) == ["m0", "m1", "m2"]
    # A newer one on the other branch hides nothing here.
    await session.add_compaction("other branch", "m0", "before")
    assert shown(await session.get_history("before")) == ["other branch"]
    assert shown(await session.get_history("behind")) == [
        "m0", "m1", "two and three", "m4", "behind",
    ]  # fmt: skip


async def test_overlays_that_mean_nothing_are_refused(host: Host) -> None:
    session = await filled(host, 5)
    await session.append_message(text("branch"), "m1")
    with pytest.raises(UnknownMessageError):
        await session.add_compaction("summary", "nobody", "m2")
    with pytest.raises(UnknownMessageError):
        await session.add_compaction("summary", "m1", "nobody")
    for first, last in (("m3", "m1"), ("m3", "branch"), ("branch", "m3")):
        with pytest.raises(CompactionRangeError):
            await session.add_compaction("summary", first, last)
    with pytest.raises(CompactionRangeError):
        await session.add_compaction("  \n", "m1", "m2")
    assert await session.get_compactions() == []


async def test_deleting_an_end_moves_it_inwards(host: Host) -> None:
    session = await filled(host, 7)
    await session.add_compaction("one to five", "m1", "m5")
    await session.delete_messages(["m1", "m5"])
    assert shown(await session.get_history()) == ["m0", "one to five", "m6"]
    stored = (await session.get_compactions())[0]
    assert (stored.from_message_id, stored.to_message_id) == ("m2", "m4")
    await session.delete_messages(["m2", "m3", "m4"])
    assert await session.get_compactions() == []
    assert shown(await session.get_history()) == ["m0", "m6"]


async def test_a_removed_overlay_shows_what_it_covered(host: Host) -> None:
    session = await filled(host, 6)
    await session.add_compaction("small", "m1", "m2")
    large = await session.add_compaction("large", "m1", "m4")
    assert shown(await session.get_history()) == ["m0", "large", "m5"]
    assert await session.remove_compaction(large.id)
    assert not await session.remove_compaction(large.id)
    assert shown(await session.get_history()) == ["m0", "small", "m3", "m4", "m5"]


async def test_a_turn_reads_only_what_it_shows(host: Any) -> None:
    session = await filled(host, 400)
    await session.add_compaction("older", "m3", "m200")
    await session.add_compaction("newer", "m3", "m380")
    await session.get_history()
    host.sql.rows_read = 0
    assert len(await session.get_history()) == 3 + 1 + 19
    assert host.sql.rows_read < 23 + 16


# -- forgetting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("often", [3, 90_000, 300_000])
async def test_forgetting_leaves_a_marker_and_nothing_else(host: Host, often: int) -> None:
    session = await filled(host, 5)
    await session.update_message(text("m2", "the secret is xyzzy" + " really" * often))
    await session.add_compaction("they spoke of xyzzy", "m1", "m3")
    assert await session.forget(["m2", "nobody"], reason="asked for") == ["m2"]
    history = await session.get_history()
    assert ids(history) == ["m0", "m1", "m2", "m3", "m4"]
    assert "xyzzy" not in json.dumps(history)
    assert history[2]["role"] == "user"
    assert history[2]["metadata"]["forgotten"] is True
    assert history[2]["metadata"]["forgottenReason"] == "asked for"
    assert await session.search("xyzzy") == []
    assert await session.search("forgotten") == []
    overlay = (await session.get_compactions())[0]
    assert overlay.stale
    assert overlay.summary == ""
    for table in tables_of(host):
        for row in host.sql.execute(f'select * from "{table}"'):
            assert not any(holds(value, "xyzzy") for value in row), table
            assert not any(holds(value, "really") for value in row), table
    await session.append_message(text("next"))
    assert ids(await session.get_history())[-2:] == ["m4", "next"]


def tables_of(host: Host) -> list[str]:
    names = host.sql.execute("select name from sqlite_master where type = 'table'")
    return [str(name) for (name,) in names if not str(name).startswith(("_cf", "sqlite_"))]


def holds(value: Any, word: str) -> bool:
    return (
        word in value
        if isinstance(value, str)
        else isinstance(value, bytes) and word.encode() in value
    )


async def test_a_stale_overlay_uncovers_what_lies_under_it(host: Host) -> None:
    session = await filled(host, 8)
    await session.add_compaction("one and two", "m1", "m2")
    await session.add_compaction("one to five", "m1", "m5")
    await session.forget(["m4"])
    assert shown(await session.get_history()) == [
        "m0", "one and two", "m3", "m4", "m5", "m6", "m7",
    ]  # fmt: skip


# -- bounded reads --------------------------------------------------------------------------------


async def test_recent_history_fits_its_budget(host: Host) -> None:
    session = await filled(host, 50)
    stats = await session.get_history_row_stats()
    sizes = [one.bytes for one in stats]
    recent = await session.get_recent_history(sum(sizes[-7:]))
    assert ids(recent.messages) == [f"m{n}" for n in range(43, 50)]
    assert recent.truncated
    assert recent.total_content_bytes == sum(sizes)
    everything = await session.get_recent_history(10**9)
    assert len(everything.messages) == 50
    assert not everything.truncated


async def test_recent_history_gives_at_least_what_is_asked(host: Host) -> None:
    session = await filled(host, 10)
    assert ids((await session.get_recent_history(0)).messages) == ["m9"]
    assert ids((await session.get_recent_history(0, 3)).messages) == ["m7", "m8", "m9"]
    assert ids((await session.get_recent_history(0, -5)).messages) == ["m9"]
    await session.add_compaction("summary", "m0", "m8")
    assert shown((await session.get_recent_history(0, 2)).messages) == ["summary", "m9"]


async def test_pages_go_backwards_over_branches(host: Host) -> None:
    session = await filled(host, 10)
    await session.append_message(text("a"), "m6")
    await session.append_message(text("b"))
    page = await session.get_page(limit=4)
    assert ids(page.messages) == ["m5", "m6", "a", "b"]
    assert page.has_more
    page = await session.get_page("m5", limit=4)
    assert ids(page.messages) == ["m1", "m2", "m3", "m4"]
    page = await session.get_page("m1", limit=4)
    assert ids(page.messages) == ["m0"]
    assert not page.has_more
    assert (await session.get_page("m0")).messages == []
    with pytest.raises(InvalidMessageError):
        await session.get_page(limit=0)


async def test_streamed_reads_are_stable_while_others_write(host: Host) -> None:
    session = await filled(host, 600)
    seen: list[str] = []
    async for message in session.history(max_batch_bytes=10_000):
        seen.append(message["id"])
        if message["id"] == "m5":
            await session.append_message(text("later"))
            await session.delete_messages(["m590", "m3"])
    assert seen == [f"m{n}" for n in range(600) if n != 590]
    backwards = [one["id"] async for one in session.history("m599", newest_first=True)]
    assert backwards == [f"m{n}" for n in range(599, -1, -1) if n not in (3, 590)]


async def test_row_statistics_name_every_message(host: Host) -> None:
    session = await filled(host, 3)
    stats = await session.get_history_row_stats()
    assert [(one.id, one.role) for one in stats] == [("m0", "user"), ("m1", "user"), ("m2", "user")]
    message = await session.get_message("m1")
    assert stats[1].bytes == len(json.dumps(message, separators=(",", ":")))
    assert stats[1].tokens == session.context_tokens() - stats[0].tokens - stats[2].tokens


# -- large and strange messages -------------------------------------------------------------------


@pytest.mark.parametrize("filler", ["x", "é", "漢", "😀"])
async def test_messages_over_two_megabytes_come_back_whole(host: Host, filler: str) -> None:
    session = Session.create(host)
    long = text("long", "ab" + filler * (4_500_000 // len(filler.encode())))
    await session.append_message(text("before"))
    await session.append_message(long)
    await session.append_message(text("after"))
    history = await session.get_history()
    assert ids(history) == ["before", "long", "after"]
    assert history[1] == long
    assert await session.get_message("long") == long
    assert (await session.get_history_row_stats())[1].bytes > 4_000_000
    await session.update_message(text("long", "short now"))
    assert (await session.get_history())[1] == text("long", "short now")
    assert host.sql.execute("select count(*) from assistant_message_pieces") == [[0]]


@pytest.mark.parametrize("size", [499_000, 501_000, 899_000, 901_000, 1_499_000, 1_501_000])
@pytest.mark.parametrize("media", [False, True])
async def test_a_message_and_its_words_fit_in_its_row(host: Host, size: int, media: bool) -> None:
    session = Session.create(host)
    words = "whale " * (size // 12)
    said = words
    if media:  # is taken out of the message, and is all words to the index
        said = "data:image/png;base64," + base64.b64encode(bytes(1_500_000)).decode()
    message: Message = {
        "id": "large",
        "role": "assistant",
        "parts": [
            {"type": "text", "text": said},
            {
                "type": "tool-read",
                "toolCallId": "c",
                "state": "output-available",
                "input": {"start": "pelican"},
                "output": words,
            },
        ],
    }
    await session.append_message(text("before"))
    assert (await session.append_message(message)).inserted
    assert await session.get_history() == [text("before"), message]
    assert [one.id for one in await session.search('"pelican"')] == ["large"]
    await session.update_message(text("large", "now short"))
    assert await session.update_message(message) == message
    assert await session.get_message("large") == message
    copied = await SessionManager.create(host).fork("", "large", "copy")
    copy = Session.create(host).for_session(copied.id)
    assert await copy.get_history() == [text("before"), message]


def picture(identifier: str, data: bytes, **fields: Any) -> Message:
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    return {
        "id": identifier,
        "role": "user",
        "parts": [
            {"type": "text", "text": "look"},
            {"type": "file", "mediaType": "image/png", "url": url, **fields},
        ],
    }


async def test_media_are_stored_once_and_come_back(host: Host) -> None:
    session = Session.create(host)
    data = bytes(range(256)) * 8_000
    first, second = picture("one", data), picture("two", data, filename="a.png")
    tool: Message = {
        "id": "tool",
        "role": "assistant",
        "parts": [
            {
                "type": "tool-shot",
                "toolCallId": "c",
                "state": "output-available",
                "input": {},
                "output": {"image": first["parts"][1]["url"]},
            }
        ],
    }
    await session.append_messages([first, second, tool])
    assert await session.get_history() == [first, second, tool]
    stored = host.sql.execute("select count(distinct hash), sum(length(data)) from assistant_media")
    assert stored == [[1, len(data)]]
    await session.delete_messages(["one", "tool"])
    assert await session.get_message("two") == second
    await session.forget(["two"])
    assert host.sql.execute("select count(*) from assistant_media") == [[0]]
    assert host.sql.execute("select count(*) from assistant_media_refs") == [[0]]


async def test_text_that_looks_like_stored_media_stays_text(host: Host) -> None:
    session = Session.create(host)
    odd = [
        text("a", "palimpsest:media"),
        text("b", "data:image/png;base64," + "A" * 9_001),  # not a length that base64 gives
        text("c", "data:image/png;base64,!" + "A" * 9_000),
        text("d", "data:text/plain," + "A" * 9_000),
    ]
    await session.append_messages(odd)
    assert await session.get_history() == odd
    assert host.sql.execute("select count(*) from assistant_media") == [[0]]


async def test_strange_values_come_back_as_they_were(host: Host) -> None:
    session = Session.create(host)
    strange: Message = {
        "id": "nul\x00 and 漢字 😀",
        "role": "user",
        "parts": [
            {"type": "text", "text": "a lone \ud800 surrogate, a \x00, a \u2028"},
            {"type": "data-number", "data": {"big": 2**63 + 1, "small": -(2**70), "real": 1e300}},
        ],
        "createdAt": "2026-01-01T00:00:00Z",
        "extra": {"unknown": [None, True, "", {}]},
    }
    await session.append_message(strange)
    assert await session.get_message(strange["id"]) == strange
    assert await session.get_history() == [strange]
    assert (await session.get_history_row_stats())[0].id == strange["id"]


async def test_rows_that_do_not_parse_are_shown_in_their_place(host: Any) -> None:
    session = await filled(host, 4)
    for identifier, content in (("m1", "{not json"), ("m2", '["an array"], 7')):
        host.sql.execute(
            "update assistant_fts set content = ? where message_id = ?", content, identifier
        )
    history = await session.get_history()
    assert ids(history) == ["m0", "m1", "m2", "m3"]
    assert [part["parts"][0]["type"] for part in history] == [
        "text", UNREADABLE, UNREADABLE, "text",
    ]  # fmt: skip
    reported = [one for one in host.logged if one.get("event") == "session.unreadable"]
    assert {one["messageId"] for one in reported} == {"m1", "m2"}
    # Such an id is not free: adding it again changes nothing and says so.
    assert not (await session.append_message(text("m1"))).inserted
    assert await session.update_message(text("m1", "repaired")) is not None
    assert (await session.get_history())[1] == text("m1", "repaired")


async def test_missing_pieces_and_media_are_reported(host: Any) -> None:
    session = Session.create(host)
    await session.append_message(text("long", "x" * 3_000_000))
    await session.append_message(picture("picture", bytes(20_000)))
    host.sql.execute("delete from assistant_message_pieces where place = 0")
    host.sql.execute("delete from assistant_media")
    history = await session.get_history()
    assert [one["id"] for one in history] == ["long", "picture"]
    assert all(one["parts"][0]["type"] == UNREADABLE for one in history)
    assert await session.delete_messages(["long", "picture"]) == ["long", "picture"]


async def test_an_append_reads_nothing_and_writes_two_rows(host: Any) -> None:
    session = await filled(host, 50)  # far from where the index begins another sitting
    host.sql.counting = True
    host.sql.rows_read = host.sql.rows_written = 0
    for number in range(5):
        await session.append_message(text(f"new{number}", "a few words"))
    assert host.sql.rows_read == 0
    if sys.platform == "emscripten":  # rows as they are billed are known only there
        assert host.sql.rows_written == 5 * 2


async def test_the_first_read_after_a_wake_reads_only_what_it_shows(host: Any) -> None:
    session = await filled(host, 500)
    await session.add_compaction("summary", "m2", "m490")
    woken: Any = host.restarted()
    session = Session.create(woken)
    woken.sql.counting = True
    woken.sql.rows_read = 0
    assert len(await session.get_history()) == 2 + 1 + 9
    assert woken.sql.rows_read < 60
