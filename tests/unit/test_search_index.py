"""The index equals the messages after any sequence of writes, also rolled-back ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.errors import LimitError
from palimpsest.hosts.local import LocalHost
from palimpsest.messages import text_message
from palimpsest.search.search import search_messages
from palimpsest.store.search_index import (
    SITTING_PAUSE,
    SITTING_ROWS,
    SearchIndex,
)
from palimpsest.store.search_reader import CONTENT_COLUMNS

WORDS = ["alpha", "beta", "gamma", "délta", "部署", "方案", "배포", "มะม่วง", "x9", "🎉"]
SESSIONS = ["a", "b", ""]

texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
writes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(SESSIONS), st.integers(1, 12), texts),
        st.tuples(st.just("update"), st.sampled_from(SESSIONS), st.integers(1, 12), texts),
        st.tuples(st.just("remove"), st.sampled_from(SESSIONS), st.integers(1, 12), st.just("")),
        st.tuples(st.just("clear"), st.sampled_from(SESSIONS), st.just(0), st.just("")),
        st.tuples(st.just("undone"), st.sampled_from(SESSIONS), st.integers(1, 12), texts),
    ),
    max_size=40,
)


class Undone(Exception):
    """Rolls a transaction back."""


def apply(host: LocalHost, index: SearchIndex, kept: dict[Any, str], write: Any) -> None:
    """Carry out one write on the index and on the plain dict that it must stay equal to."""
    kind, session, row, text = write
    message = text_message(f"{session}{row}", "user", text)
    if kind == "add" and (session, row) not in kept:
        index.add(session, row, message, row)
        kept[session, row] = text
    elif kind == "update":
        index.update(session, row, message, row)
        kept[session, row] = text
    elif kind == "remove":
        index.remove(session, [row])
        kept.pop((session, row), None)
    elif kind == "clear":
        index.clear(session)
        for key in [key for key in kept if key[0] == session]:
            del kept[key]
    elif kind == "undone":

        def body() -> None:
            index.update(session, row, message, row)
            raise Undone

        with pytest.raises(Undone):
            host.sql.transaction(body)


def check(host: LocalHost, index: SearchIndex, kept: dict[Any, str]) -> None:
    """Every word finds exactly the messages that hold it, and nothing else is stored."""
    for table in ("assistant_fts", "assistant_fts_grams"):
        host.sql.execute(f"insert into {table} ({table}, rank) values ('integrity-check', 1)")
    for word in WORDS:
        for session in SESSIONS:
            expected = {
                row for (name, row), text in kept.items() if name == session and word in text
            }
            found = search_messages(index, f'"{word}"', session_id=session, limit=100)
            assert {result.row for result in found} == expected, (word, session)
    rows = host.sql.execute(
        "select n.session_id, d.row, d.text from assistant_search d"
        " join assistant_search_sessions n on n.number = d.doc / 4294967296"
    )
    assert {(name, row): text for name, row, text in rows} == kept
    assert host.sql.execute("select count(*) from assistant_search") == [[len(kept)]]
    unspaced = sum(1 for text in kept.values() if re.search("[部方배ม🎉]", text))
    assert host.sql.execute("select count(*) from assistant_fts_grams") == [[unspaced]]


@settings(max_examples=60, deadline=None)
@given(writes)
def test_the_index_equals_the_messages_after_any_writes(all_writes: list[Any]) -> None:
    host = LocalHost()
    try:
        index = SearchIndex(host.sql)
        kept: dict[Any, str] = {}
        for write in all_writes:
            apply(host, index, kept, write)
        check(host, index, kept)
        check(host, SearchIndex(host.sql), kept)
    finally:
        host.close()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_stored_and_any_query_asked(text: str, query: str) -> None:
    host = LocalHost()
    try:
        index = SearchIndex(host.sql)
        index.add("s", 1, text_message("m", "user", text), 1)
        for result in search_messages(index, query, session_id="s"):
            assert result.id == "m"
            end = 0
            for start, stop in result.highlights:
                assert end <= start < stop <= len(result.snippet)
                end = stop
            result.marked()
        index.remove("s", [1])
        assert host.sql.execute("select count(*) from assistant_fts_grams") == [[0]]
        assert search_messages(index, query, session_id="s") == []
    finally:
        host.close()


def test_what_the_index_of_another_program_left_is_replaced() -> None:
    host = LocalHost()
    host.sql.execute(
        "create virtual table assistant_fts using fts5"
        " (id unindexed, session_id unindexed, role unindexed, content)"
    )
    host.sql.execute("insert into assistant_fts values ('x', 's', 'user', 'old words')")
    index = SearchIndex(host.sql)
    index.add("s", 1, text_message("m", "user", "new words"), 1)
    assert [result.id for result in search_messages(index, "words", session_id="s")] == ["m"]
    host.close()


@pytest.mark.parametrize("row", [0, -1, 2**31])
def test_a_row_number_out_of_range_is_refused(row: int) -> None:
    host = LocalHost()
    index = SearchIndex(host.sql)
    with pytest.raises(LimitError):
        index.add("s", row, text_message("m", "user", "x"), 1)
    assert host.sql.execute("select count(*) from assistant_search") == [[0]]
    host.close()


def test_sittings_are_parted_by_pauses_and_end_after_some_rows() -> None:
    host = LocalHost()
    index = SearchIndex(host.sql)
    times = [0, 1, 2, SITTING_PAUSE + 3, SITTING_PAUSE + 4]
    for row, time in enumerate(times, start=1):
        index.add("s", row, text_message(f"m{row}", "user", "x"), time)
    for row in range(6, 6 + SITTING_ROWS):
        index.add("s", row, text_message(f"m{row}", "user", "x"), SITTING_PAUSE + 5)
    assert index.look_up("s", [])[0].sittings == [1, 4, 4 + SITTING_ROWS]
    assert index.look_up("s", [])[0].messages == 5 + SITTING_ROWS
    assert index.look_up("nobody", [])[0].messages == 0
    host.close()


def test_a_message_is_added_with_one_statement_where_its_session_is_known() -> None:
    host = LocalHost()
    index = SearchIndex(host.sql)
    index.add("s", 1, text_message("m1", "user", "first"), 1)
    number = index.number("s")
    statements: list[str] = []
    plain = host.sql.execute

    def counted(sql: str, *bindings: Any) -> Any:
        statements.append(sql)
        return plain(sql, *bindings)

    host.sql.execute = counted
    index.add("s", 2, text_message("m2", "user", "second"), 2, number)
    assert len(statements) == 1
    host.close()


def test_the_columns_are_named_in_the_order_in_which_fts5_keeps_them() -> None:
    host = LocalHost()
    SearchIndex(host.sql)
    named = host.sql.execute("select name from pragma_table_info('assistant_fts')")
    assert [row[0] for row in named][: len(CONTENT_COLUMNS)] == list(CONTENT_COLUMNS)
    kept = host.sql.execute("select name from pragma_table_info('assistant_fts_content')")
    assert [row[0] for row in kept] == ["id", *(f"c{n}" for n in range(len(CONTENT_COLUMNS)))]
    host.close()


def test_a_session_that_another_index_numbered_anew_is_not_mistaken() -> None:
    host = LocalHost()
    index, other = SearchIndex(host.sql), SearchIndex(host.sql)
    index.add("a", 1, text_message("a1", "user", "the copper lantern"), 1)
    for _ in range(2):
        found = search_messages(index, '"copper lantern"', session_id="a")
        assert [one.id for one in found] == ["a1"]
    other.clear("a")
    other.add("b", 1, text_message("b1", "user", "the copper lantern"), 1)
    assert other.number("b") == 1, "the number that was a's"
    assert search_messages(index, '"copper lantern"', session_id="a") == []
    other.add("a", 1, text_message("a2", "user", "another copper lantern"), 1)
    for _ in range(2):
        found = search_messages(index, '"copper lantern"', session_id="a")
        assert [(one.session_id, one.id) for one in found] == [("a", "a2")]
    host.close()


def test_postings_may_together_be_larger_than_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost()
    index = SearchIndex(host.sql)
    for row in range(1, 9):
        index.add("s", row, text_message(f"m{row}", "user", f"red fox {row}"), row)
    expected = index.look_up("s", [('"red"', None), ('"7"', None)])
    plain = host.sql.value

    def limited(sql: str, *bindings: Any) -> Any:
        found = plain(sql, *bindings)
        assert isinstance(found, bytes)
        if len(found) > len("[8,[1],4294967296,0,[[8,7,6,5,4,3,2,1]]]"):
            raise LimitError("too big")
        return found

    monkeypatch.setattr(host.sql, "value", limited)
    assert index.look_up("s", [('"red"', None), ('"7"', None)]) == expected
    assert expected[1] == [[8, 7, 6, 5, 4, 3, 2, 1], [7]]
    host.close()
