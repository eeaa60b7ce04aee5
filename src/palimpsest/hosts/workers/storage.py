"""SQL on a Durable Object's database, through the raw binding."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyodide.ffi import JsException, jsnull, to_js

from palimpsest.errors import LimitError, SqlError, TransactionError, UniqueViolationError
from palimpsest.hosts.interface import MAX_BOUND_PARAMETERS, MAX_VALUE_BYTES, SqlValue, T
from palimpsest.hosts.limits import check_statement, check_value
from palimpsest.hosts.workers.ffi import bytes_of

_WRITES_ONLY = re.compile(r"\s*(insert|update|delete|create|drop|alter|replace)\b", re.IGNORECASE)
_RETURNING = re.compile(r"\breturning\b", re.IGNORECASE)


_SIMPLE = frozenset({str, int, float})

_STATEMENTS_KEPT = 256
"""Of how many statements the text is kept on the side of JavaScript."""

_LONGEST_KEPT = 10_000
"""Longer statements, in characters, are handed over anew each time."""


class WorkersSql:
    """SQL on the Durable Object's own database."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._statements: dict[str, tuple[Callable[..., Any], bool]] = {}
        self.rows_read: int = 0
        self.rows_written: int = 0
        self.rollbacks = 0
        self.keeps_writes_together = True
        self.counting = False
        """Whether to keep the two counters; reading them costs about as much as a statement."""

    def execute(self, sql: str, *bindings: SqlValue) -> list[list[SqlValue]]:
        """See :meth:`palimpsest.hosts.interface.Sql.execute`."""
        run, reads = self._statements.get(sql) or self._prepare(sql, len(bindings))
        try:
            cursor = run(*_bound(bindings))
            rows = _read_rows(cursor) if reads else []
        except JsException as error:
            raise _sql_error(error) from None
        if self.counting:
            self.rows_read += cursor.rowsRead
            self.rows_written += cursor.rowsWritten
        return rows

    def value(self, sql: str, *bindings: SqlValue) -> SqlValue:
        """See :meth:`palimpsest.hosts.interface.Sql.value`."""
        run, _ = self._statements.get(sql) or self._prepare(sql, len(bindings))
        try:
            cursor = run(*_bound(bindings))
            value = cursor.one().value
        except JsException as error:
            raise _sql_error(error) from None
        except AttributeError:
            raise SqlError("no such column: value") from None
        if self.counting:
            self.rows_read += cursor.rowsRead
            self.rows_written += cursor.rowsWritten
        if type(value) in _SIMPLE:
            return value
        return None if value is jsnull else bytes_of(value)

    def _prepare(self, sql: str, bindings: int) -> tuple[Callable[..., Any], bool]:
        """What runs the statement with what it is called with, and whether rows must be read.

        The text of a statement crosses to JavaScript character by character and would be hashed
        there at every call: that takes longer than a short statement.
        """
        check_statement(sql, bindings)
        prepared = self._sql.exec.bind(self._sql, sql), _may_return_rows(sql)
        if len(sql) <= _LONGEST_KEPT:
            if len(self._statements) >= _STATEMENTS_KEPT:
                self._statements.clear()
            self._statements[sql] = prepared
        return prepared

    def transaction(self, body: Callable[[], T]) -> T:
        """See :meth:`palimpsest.hosts.interface.Sql.transaction`."""
        if inspect.iscoroutinefunction(body):
            raise TransactionError("a transaction's body must not be async")
        results: list[T] = []

        def run() -> None:
            # The result stays on this side: it need not survive a trip through JavaScript.
            result = body()
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TransactionError("a transaction's body must not return an awaitable")
            results.append(result)

        try:
            self._storage.transactionSync(run)
        except BaseException:
            self.rollbacks += 1
            raise
        return results[0]

    def database_size(self) -> int:
        """Bytes that the database occupies."""
        return int(self._sql.databaseSize)


_PLAIN_TEXT = 500_000
"""Up to this many characters a text fits whatever they are, so its bytes need not be counted."""


def _bound(values: Sequence[SqlValue]) -> Iterable[Any]:
    """The values as they cross the boundary. Short ASCII texts, as most are, do so unchanged."""
    if len(values) > MAX_BOUND_PARAMETERS:
        check_statement("", len(values))
    for value in values:
        if type(value) is not str or len(value) >= _PLAIN_TEXT or not value.isascii():
            return map(_bindable, values)
    return values


def _bindable(value: SqlValue) -> Any:
    checked = check_value(value)
    if isinstance(checked, bytes):
        return to_js(checked)
    if isinstance(checked, int):
        # Binds as REAL anyway; a large ``int`` might cross as a BigInt, which SQL refuses.
        return float(checked)
    return checked


def _may_return_rows(sql: str) -> bool:
    """Whether a cursor must be read to its end: an unfinished one would hold a lock.

    A writing statement has run completely when ``exec`` returns, so reading it is left out.
    """
    if _WRITES_ONLY.match(sql) is None or _RETURNING.search(sql) is not None:
        return True
    return ";" in sql.rstrip().rstrip(";")


def _read_rows(cursor: Any) -> list[list[SqlValue]]:
    rows: list[list[Any]] = cursor.raw().toArray().to_py()
    for row in rows:
        for index, value in enumerate(row):
            if value is jsnull:
                row[index] = None
            elif type(value) is memoryview:
                row[index] = bytes(value)
    return rows


def _sql_error(error: JsException) -> Exception:
    message = str(error.message)
    if "UNIQUE constraint failed" in message:
        return UniqueViolationError(message)
    if "SQLITE_TOOBIG" in message or "too big" in message:
        return LimitError(f"a value is at most {MAX_VALUE_BYTES} bytes: {message}")
    return SqlError(message)
