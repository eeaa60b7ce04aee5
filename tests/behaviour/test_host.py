"""The host seam: what both hosts store, refuse and promise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palimpsest.errors import (
    BindingError,
    LimitError,
    SqlError,
    TransactionError,
    UniqueViolationError,
)
from palimpsest.hosts.interface import MAX_INTEGER


def test_values_come_back_as_they_were_bound(host: Any) -> None:
    values = [None, True, 7, -MAX_INTEGER, 1.5, "text\0with 🐈", b"\0\xff", memoryview(b"view")]
    row = host.sql.execute("select " + ", ".join("?" * len(values)), *values)[0]
    assert row == [None, 1, 7, -MAX_INTEGER, 1.5, "text\0with 🐈", b"\0\xff", b"view"]


@pytest.mark.parametrize("value", [None, True, 7, 1.5, -MAX_INTEGER, "text 🐈", b"\0\xff"])
def test_one_value_comes_back_as_in_a_row(host: Any, value: Any) -> None:
    found = host.sql.value("select ? as value", value)
    assert found == value
    assert type(found) is (int if value is True else type(value))


@pytest.mark.parametrize(
    "statement",
    [
        "select 1 as value where false",
        "select 1 as value union all select 2",
        "select 1 as other",
        "nonsense",
    ],
)
def test_one_value_is_the_column_value_of_one_row(host: Any, statement: str) -> None:
    with pytest.raises(SqlError):
        host.sql.value(statement)


def test_one_value_is_limited_as_rows_are(host: Any) -> None:
    with pytest.raises(LimitError):
        host.sql.value("select ? as value", "x" * 2_000_001)


def test_integers_bind_as_real(host: Any) -> None:
    assert host.sql.execute("select typeof(?), typeof(cast(? as integer))", 5, 5) == [
        ["real", "integer"]
    ]


def test_an_integer_column_keeps_integers(host: Any) -> None:
    host.sql.execute("create table numbers (n integer not null) strict")
    host.sql.execute("insert into numbers (n) values (?)", 12345678901)
    assert host.sql.execute("select n, typeof(n) from numbers") == [[12345678901, "integer"]]


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1,), object(), bytearray(b"x")])
def test_values_that_would_be_corrupted_are_refused(host: Any, value: Any) -> None:
    with pytest.raises(BindingError):
        host.sql.execute("select ?", value)


def test_a_lone_surrogate_is_refused(host: Any) -> None:
    with pytest.raises(BindingError):
        host.sql.execute("select ?", "broken \ud800")


def test_limits_are_enforced(host: Any) -> None:
    with pytest.raises(LimitError):
        host.sql.execute("select ?", MAX_INTEGER + 1)
    with pytest.raises(LimitError):
        host.sql.execute("select ?", "x" * 2_000_001)
    with pytest.raises(LimitError):
        host.sql.execute("select " + ", ".join("?" * 101), *range(101))
    with pytest.raises(LimitError):
        host.sql.execute("select 1 -- " + "x" * 100_000)
    with pytest.raises(SqlError):
        host.sql.execute("select 1 where 'a' like ?", "%" + "a" * 60)


def test_unique_violations_have_their_own_error(host: Any) -> None:
    host.sql.execute("create table named (name text primary key)")
    host.sql.execute("insert into named (name) values (?)", "a")
    with pytest.raises(UniqueViolationError):
        host.sql.execute("insert into named (name) values (?)", "a")


def test_bad_sql_is_a_clear_error(host: Any) -> None:
    with pytest.raises(SqlError, match="nonsense"):
        host.sql.execute("nonsense")


def test_transaction_statements_are_refused(host: Any) -> None:
    with pytest.raises(SqlError):
        host.sql.execute("begin")


def test_a_transaction_returns_its_result_and_commits(host: Any) -> None:
    host.sql.execute("create table rows_kept (n integer)")

    def body() -> dict[str, int]:
        host.sql.execute("insert into rows_kept (n) values (1)")
        return {"answer": 42}

    assert host.sql.transaction(body) == {"answer": 42}
    assert host.sql.execute("select n from rows_kept") == [[1]]


def test_a_failing_transaction_rolls_back_and_keeps_its_error(host: Any) -> None:
    host.sql.execute("create table rows_dropped (n integer)")

    def body() -> None:
        host.sql.execute("insert into rows_dropped (n) values (1)")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        host.sql.transaction(body)
    assert host.sql.execute("select n from rows_dropped") == []


def test_nested_transactions_are_savepoints(host: Any) -> None:
    host.sql.execute("create table nested (n integer)")

    def inner() -> None:
        host.sql.execute("insert into nested (n) values (2)")
        raise ValueError("inner")

    def outer() -> None:
        host.sql.execute("insert into nested (n) values (1)")
        with pytest.raises(ValueError, match="inner"):
            host.sql.transaction(inner)

    host.sql.transaction(outer)
    assert host.sql.execute("select n from nested") == [[1]]


def test_an_async_transaction_is_refused(host: Any) -> None:
    async def body() -> None:
        host.sql.execute("create table never (n integer)")

    with pytest.raises(TransactionError):
        host.sql.transaction(body)
    with pytest.raises(TransactionError):
        host.sql.transaction(lambda: body())


def test_several_statements_run_and_the_last_one_answers(host: Any) -> None:
    rows = host.sql.execute(
        "create table several (n integer); insert into several values (3); select n from several"
    )
    assert rows == [[3]]


def test_numbered_parameters_and_parameters_of_the_last_statement(host: Any) -> None:
    assert host.sql.execute("select ?2, ?1, ?2", "a", "b") == [["b", "a", "b"]]
    rows = host.sql.execute(
        "create table numbered (t text); insert into numbered values ('x;y'); "
        "select t || ?1 from numbered where t = ?2",
        "!",
        "x;y",
    )
    assert rows == [["x;y!"]]


def test_returning_gives_rows(host: Any) -> None:
    host.sql.execute("create table returned (n integer)")
    assert host.sql.execute("insert into returned values (?) returning n + 1", 4) == [[5]]


def test_a_read_leaves_no_lock(host: Any) -> None:
    host.sql.execute("create table locked (n integer)")
    host.sql.execute("insert into locked values (1), (2)")
    host.sql.execute("select n from locked")
    host.sql.execute("drop table locked")


def test_rows_are_counted(host: Any) -> None:
    host.sql.execute("create table counted (n integer)")
    before = host.sql.rows_written
    host.sql.execute("insert into counted values (1), (2)")
    assert host.sql.rows_written >= before + 2
    before = host.sql.rows_read
    host.sql.execute("select n from counted")
    assert host.sql.rows_read >= before + 2


async def test_spawned_work_runs_and_its_failure_is_reported_once(host: Any) -> None:
    ran: list[str] = []

    async def good() -> None:
        await asyncio.sleep(0)
        ran.append("good")

    async def bad() -> None:
        raise RuntimeError("spawned work broke")

    host.spawn(good(), name="good")
    host.spawn(bad(), name="bad")
    await host.background_idle()
    assert ran == ["good"]
    failures = [event for event in host.logged if event["event"] == "task.failed"]
    assert len(failures) == 1
    assert failures[0]["task"] == "bad"
    assert "spawned work broke" in failures[0]["error"]


async def test_alarm_can_be_set_replaced_and_deleted(host: Any) -> None:
    assert await host.get_alarm() is None
    host.set_alarm(host.now() + 5000)
    host.set_alarm(host.now() + 9000)
    assert await host.get_alarm() == host.now() + 9000
    host.delete_alarm()
    assert await host.get_alarm() is None
    with pytest.raises(ValueError, match="positive"):
        host.set_alarm(0)


def test_sockets_carry_tags_and_attachments(host: Any) -> None:
    socket, response = host.accept_socket(["room", "user-1"], {"id": 1, "name": "Мурка"})
    assert response.status == 101
    assert socket.tags == ["room", "user-1"]
    assert socket.get_attachment() == {"id": 1, "name": "Мурка"}
    socket.set_attachment({"id": 2})
    assert [found.get_attachment() for found in host.sockets("user-1")] == [{"id": 2}]
    assert host.sockets("nobody") == []
    assert host.sockets() == [socket]


def test_socket_limits(host: Any) -> None:
    with pytest.raises(LimitError):
        host.accept_socket([str(number) for number in range(11)], None)
    with pytest.raises(LimitError):
        host.accept_socket(["x" * 257], None)
    with pytest.raises(LimitError):
        host.accept_socket([""], None)
    socket, _ = host.accept_socket([], {"small": True})
    with pytest.raises(LimitError):
        socket.set_attachment("a" * 9000 + "猫")
    with pytest.raises(LimitError):
        socket.set_attachment("a" * 16_400)
    assert socket.get_attachment() == {"small": True}
    socket.set_attachment("a" * 16_300)


def test_a_closed_socket_drops_messages(host: Any) -> None:
    socket, _ = host.accept_socket(["one"], None)
    socket.send("text")
    socket.send(b"bytes")
    socket.close(4001, "over")
    socket.close(4001, "over")
    socket.send("late")
    assert not socket.is_open
    assert host.sockets() == []
    assert socket.sent == ["text", b"bytes"]


async def test_delete_all_leaves_nothing(host: Any) -> None:
    host.sql.execute("create table doomed (n integer)")
    host.sql.execute("create virtual table doomed_index using fts5(text)")
    host.set_alarm(host.now() + 1000)
    host.delete_all()
    assert await host.get_alarm() is None
    host.sql.execute("create table doomed (n integer)")
    assert host.sql.execute("select count(*) from doomed") == [[0]]
