"""The tree of messages of a session, on every host."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import (
    InvalidMessageError,
    LimitError,
    ReservedIdError,
    UnknownMessageError,
    UnknownParentError,
)
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message
from palimpsest.session.session import ChangeEvent, Session


def text(identifier: str, words: str = "hello", role: str = "user") -> Message:
    return {"id": identifier, "role": role, "parts": [{"type": "text", "text": words}]}


async def filled(host: Host, count: int, session_id: str = "") -> Session:
    session = Session.create(host).for_session(session_id)
    for number in range(count):
        await session.append_message(text(f"m{number}", f"message number {number}"))
    return session


def indexed(host: Host, word: str) -> list[str]:
    """The ids of the messages whose words in the index hold a word."""
    rows = host.sql.execute(
        "select message_id from assistant_fts where assistant_fts match ? order by rowid", word
    )
    return [str(row[0]) for row in rows]


def ids(messages: list[Message]) -> list[str]:
    return [message["id"] for message in messages]


async def test_messages_follow_the_newest_one(host: Host) -> None:
    session = await filled(host, 3)
    assert ids(await session.get_history()) == ["m0", "m1", "m2"]
    leaf = await session.get_latest_leaf()
    assert leaf is not None
    assert leaf["id"] == "m2"
    assert await session.get_path_length() == 3


async def test_an_empty_session_answers_everything(host: Host) -> None:
    session = Session.create(host)
    assert await session.get_history() == []
    assert await session.get_latest_leaf() is None
    assert await session.get_path_length() == 0
    assert await session.get_history_row_stats() == []
    assert (await session.get_recent_history(1000)).messages == []
    assert await session.get_message("m0") is None
    assert await session.get_branches("m0") == []
    assert await session.get_compactions() == []
    assert await session.search("anything") == []
    assert await session.delete_messages(["m0"]) == []
    assert await session.forget(["m0"]) == []
    assert session.context_tokens() == 0
    await session.clear_messages()


async def test_a_parent_is_the_newest_a_named_one_or_none(host: Host) -> None:
    session = await filled(host, 3)
    await session.append_message(text("branch"), "m0")
    await session.append_message(text("behind the branch"))
    assert ids(await session.get_history()) == ["m0", "branch", "behind the branch"]
    assert ids(await session.get_history("m2")) == ["m0", "m1", "m2"]
    assert ids(await session.get_history("m1")) == ["m0", "m1"]
    await session.append_message(text("root"), None)
    assert ids(await session.get_history()) == ["root"]
    assert ids(await session.get_branches("m0")) == ["m1", "branch"]
    assert ids(await session.get_roots()) == ["m0", "root"]
    assert await session.get_parent_id("branch") == "m0"
    assert await session.get_parent_id("root") is None
    assert await session.get_leaf_of("m0") == "behind the branch"
    assert await session.get_leaf_of("m1") == "m2"
    assert await session.get_siblings("m2") == {
        "m0": ["m0", "root"],
        "m1": ["m1", "branch"],
    }


@pytest.mark.parametrize("parent", ["nobody", "", "of the other session"])
async def test_an_unknown_parent_is_refused_and_nothing_is_written(host: Host, parent: str) -> None:
    other = Session.create(host).for_session("other")
    await other.append_message(text("of the other session"))
    session = await filled(host, 2)
    with pytest.raises(UnknownParentError):
        await session.append_message(text("new"), parent)
    assert ids(await session.get_history()) == ["m0", "m1"]
    assert await session.get_message("new") is None
    assert await session.search("hello") == []


async def test_one_id_in_two_sessions_is_two_messages(host: Host) -> None:
    first, second = await filled(host, 2, "first"), await filled(host, 1, "second")
    await second.update_message(text("m0", "the second one"))
    assert (await first.get_history())[0]["parts"][0]["text"] == "message number 0"
    await first.clear_messages()
    assert ids(await second.get_history()) == ["m0"]


async def test_an_id_that_exists_changes_nothing(host: Host) -> None:
    session = await filled(host, 2)
    result = await session.append_message(text("m0", "something else"), "m1")
    assert not result.inserted
    assert result.message["parts"][0]["text"] == "message number 0"
    assert ids(await session.get_history()) == ["m0", "m1"]
    assert await session.search("something") == []


async def test_overlay_ids_are_refused_on_every_write(host: Host) -> None:
    session = await filled(host, 1)
    echo = text("compaction_1")
    for write in (
        session.append_message,
        session.update_message,
        session.upsert_message,
        session.import_message,
    ):
        with pytest.raises(ReservedIdError):
            await write(echo)
    with pytest.raises(ReservedIdError):
        await session.append_messages([text("fine"), echo])
    assert ids(await session.get_history()) == ["m0"]


@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        None,
        [],
        {},
        {"id": "", "role": "user", "parts": []},
        {"id": 7, "role": "user", "parts": []},
        {"id": "a", "role": None, "parts": []},
        {"id": "a", "role": "user"},
        {"id": "a", "role": "user", "parts": "text"},
        {"id": "a", "role": "user", "parts": ["text"]},
        {"id": "a", "role": "user", "parts": [{"text": "no type"}]},
        {"id": "a" * 2000, "role": "user", "parts": []},
        {"id": "a\ud800", "role": "user", "parts": []},
        {"id": "a", "role": "user", "parts": [{"type": "text", "text": float("nan")}]},
        {"id": "a", "role": "user", "parts": [{"type": "data-x", "data": {1, 2}}]},
        {"id": "a", "role": "user", "parts": [{"type": "data-x", "data": b"bytes"}]},
    ],
)
async def test_what_is_no_message_is_refused(host: Host, wrong: Any) -> None:
    session = await filled(host, 1)
    for write in (session.append_message, session.upsert_message, session.import_message):
        with pytest.raises(InvalidMessageError):
            await write(wrong)
    assert ids(await session.get_history()) == ["m0"]


async def test_a_message_that_holds_itself_is_refused(host: Host) -> None:
    session = Session.create(host)
    message = text("a")
    message["metadata"] = message
    with pytest.raises(InvalidMessageError):
        await session.append_message(message)


async def test_a_deeply_nested_message_is_refused_and_the_object_goes_on(host: Host) -> None:
    session = Session.create(host)
    for depth in (300, 5_000, 100_000):
        deep: Any = "core"
        for _ in range(depth):
            deep = [deep]
        message = text("a")
        message["metadata"] = {"deep": deep}
        with pytest.raises(InvalidMessageError, match="nested"):
            await session.append_message(message)
        while deep != "core":  # so that freeing it does not recurse either
            deep = deep.pop()
    assert await session.get_history() == []


async def test_a_batch_is_added_whole_or_not_at_all(host: Host) -> None:
    session = await filled(host, 1)
    results = await session.append_messages([text("a"), text("b"), text("c")])
    assert [result.inserted for result in results] == [True, True, True]
    assert ids(await session.get_history()) == ["m0", "a", "b", "c"]
    with pytest.raises(InvalidMessageError):
        await session.append_messages([text("d"), {"id": "e"}])
    assert ids(await session.get_history()) == ["m0", "a", "b", "c"]
    with pytest.raises(UnknownParentError):
        await session.append_messages([text("d"), text("e")], "nobody")
    again = await session.append_messages([text("a"), text("x")])
    assert [result.inserted for result in again] == [False, True]
    assert ids(await session.get_history()) == ["m0", "a", "x"]


async def test_a_rolled_back_append_leaves_no_trace(host: Host) -> None:
    session = await filled(host, 2)

    def write() -> None:
        session._writer.append(text("gone"), "m0")  # pyright: ignore[reportPrivateUsage]
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        host.sql.transaction(write)
    await session.append_message(text("next"))
    assert ids(await session.get_history()) == ["m0", "m1", "next"]
    assert await session.get_message("gone") is None
    assert session.context_tokens() == sum(
        one.tokens for one in await session.get_history_row_stats()
    )


async def test_update_replaces_content_role_and_index(host: Host) -> None:
    session = await filled(host, 3)
    changed = text("m1", "entirely different", role="assistant")
    assert await session.update_message(changed) == changed
    assert (await session.get_history())[1] == changed
    stats = await session.get_history_row_stats()
    assert [one.role for one in stats] == ["user", "assistant", "user"]
    found = (await session.search("different"))[0]
    assert (found.id, found.role) == ("m1", "assistant")
    assert indexed(host, "different") == ["m1"]
    assert indexed(host, "number") == ["m0", "m2"]


async def test_updating_an_unknown_message_writes_nothing(host: Host) -> None:
    session = await filled(host, 1)
    assert await session.update_message(text("nobody", "phantom")) is None
    assert await session.search("phantom") == []
    assert session.search_index_of_all("phantom") == []


async def test_upsert_updates_or_appends(host: Host) -> None:
    session = await filled(host, 1)
    assert (await session.upsert_message(text("a", "first"))).inserted
    result = await session.upsert_message(text("a", "second"), None)
    assert not result.inserted
    assert ids(await session.get_history()) == ["m0", "a"]
    message = await session.get_message("a")
    assert message is not None
    assert message["parts"][0]["text"] == "second"


async def test_deleting_moves_children_to_the_grandparent(host: Host) -> None:
    session = await filled(host, 5)
    await session.append_message(text("branch"), "m2")
    assert await session.delete_messages(["m2", "nobody", "m2"]) == ["m2"]
    assert ids(await session.get_history("m4")) == ["m0", "m1", "m3", "m4"]
    assert ids(await session.get_history()) == ["m0", "m1", "branch"]
    assert ids(await session.get_branches("m1")) == ["m3", "branch"]
    assert await session.get_path_length("m4") == 4
    assert indexed(host, "number") == ["m0", "m1", "m3", "m4"]


async def test_deleting_the_root_and_the_leaf(host: Host) -> None:
    session = await filled(host, 4)
    await session.delete_messages(["m0", "m3"])
    assert ids(await session.get_history()) == ["m1", "m2"]
    await session.append_message(text("next"))
    assert ids(await session.get_history()) == ["m1", "m2", "next"]
    assert ids(await session.get_roots()) == ["m1"]


async def test_a_deleted_id_may_be_added_again_without_a_cycle(host: Host) -> None:
    session = await filled(host, 5)
    await session.delete_messages(["m2"])
    result = await session.append_message(text("m2", "again"))
    assert result.inserted
    assert ids(await session.get_history()) == ["m0", "m1", "m3", "m4", "m2"]
    assert ids(await session.get_history("m1")) == ["m0", "m1"]


async def test_clearing_leaves_an_empty_session(host: Host) -> None:
    session = await filled(host, 5)
    await session.add_compaction("a summary", "m1", "m2")
    await session.clear_messages()
    assert await session.get_history() == []
    assert await session.get_compactions() == []
    assert await session.search("message") == []
    await session.append_message(text("m0", "new"))
    assert ids(await session.get_history()) == ["m0"]
    assert await session.get_path_length() == 1


async def test_a_restart_changes_nothing(host: Any) -> None:
    session = await filled(host, 5)
    await session.append_message(text("branch"), "m1")
    await session.delete_messages(["m0"])
    before = await session.get_history(), await session.get_history("m4"), session.context_tokens()
    session = Session.create(host.restarted())
    assert before == (
        await session.get_history(),
        await session.get_history("m4"),
        session.context_tokens(),
    )
    await session.append_message(text("next"))
    assert ids(await session.get_history()) == ["m1", "branch", "next"]


async def test_two_session_objects_see_the_same(host: Host) -> None:
    first, second = await filled(host, 2), Session.create(host)
    await second.append_message(text("a"))
    await first.append_message(text("b"))
    await second.delete_messages(["b"])
    await first.append_message(text("c"))
    assert ids(await second.get_history()) == ["m0", "m1", "a", "c"]


async def test_imports_keep_their_time(host: Host) -> None:
    session = Session.create(host)
    await session.import_message(text("old"), created_at=1_000)
    assert await session.get_created_at("old") == 1_000
    assert await session.get_created_at("nobody") is None
    with pytest.raises(InvalidMessageError):
        await session.import_message(text("wrong"), created_at=-1)
    with pytest.raises(InvalidMessageError):
        await session.import_message(text("wrong"), created_at="yesterday")  # type: ignore[arg-type]
    with pytest.raises(UnknownParentError):
        await session.import_message(text("itself"), parent_id="itself")


async def test_events_are_told_after_the_commit(host: Host) -> None:
    session = Session.create(host)
    seen: list[tuple[str, tuple[str, ...]]] = []

    async def listen(event: ChangeEvent) -> None:
        if event.kind == "append":
            assert await session.get_message(event.message_ids[0]) is not None
        seen.append((event.kind, event.message_ids))

    def fail(event: ChangeEvent) -> None:
        raise RuntimeError("a listener's own fault")

    session.subscribe(fail)
    end = session.subscribe(listen)
    await session.append_message(text("a"))
    await session.append_message(text("a"))
    await session.append_messages([text("b"), text("c")])
    await session.update_message(text("a", "changed"))
    await session.update_message(text("a", "changed"))
    await session.add_compaction("summary", "a", "b")
    await session.forget(["b"])
    await session.delete_messages(["b"])
    await session.import_message(text("d"), created_at=5)
    await session.clear_messages()
    assert seen == [
        ("append", ("a",)), ("append", ("a",)), ("append", ("b",)), ("append", ("c",)),
        ("update", ("a",)), ("compaction", ("a", "b")), ("forget", ("b",)), ("delete", ("b",)),
        ("import", ("d",)), ("clear", ()),
    ]  # fmt: skip
    end()
    await session.append_message(text("e"))
    assert len(seen) == 10


async def test_session_ids_are_checked(host: Host) -> None:
    for wrong in ("x" * 2000, "a\ud800"):
        with pytest.raises(InvalidMessageError):
            Session.create(host).for_session(wrong)
    with pytest.raises(TypeError):
        Session.create(object())


async def test_questions_about_unknown_messages(host: Host) -> None:
    session = await filled(host, 1)
    for ask in (session.get_parent_id, session.get_leaf_of, session.get_page):
        with pytest.raises(UnknownMessageError):
            await ask("nobody")
    assert await session.get_history("nobody") == []
    assert await session.get_path_length("nobody") == 0


async def test_a_long_interleaved_conversation_keeps_its_order(host: Host) -> None:
    session = await filled(host, 1)
    tips = ["m0", "m0"]
    for number in range(40):
        name = f"b{number}"
        await session.append_message(text(name), tips[number % 2])
        tips[number % 2] = name
    expected = ["m0"] + [f"b{number}" for number in range(1, 40, 2)]
    assert ids(await session.get_history(tips[1])) == expected
    assert await session.get_path_length(tips[1]) == 21
    await session.delete_messages([f"b{number}" for number in range(1, 30, 2)])
    assert await session.get_path_length(tips[1]) == 6
    assert ids(await session.get_history(tips[1])) == ["m0", "b31", "b33", "b35", "b37", "b39"]


async def test_a_message_too_large_for_an_isolate_is_refused(host: Host) -> None:
    session = await filled(host, 1)
    with pytest.raises(LimitError):
        await session.append_message(text("huge", "x" * (25 * 1024 * 1024)))
    assert ids(await session.get_history()) == ["m0"]
