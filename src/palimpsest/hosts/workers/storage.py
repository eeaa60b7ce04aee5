"""SQL on a Durable Object's database, through the raw binding."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyodide.ffi import JsException, JsProxy, jsnull, to_js

from palimpsest.errors import LimitError, SqlError, TransactionError, UniqueViolationError
from palimpsest.hosts.interface import MAX_BOUND_PARAMETERS, MAX_VALUE_BYTES, SqlValue, T
from palimpsest.hosts.limits import check_statement, check_value
from palimpsest.hosts.workers.ffi import bytes_of

_WRITES_ONLY = re.compile(r"\s*(insert|update|delete|create|drop|alter|replace)\b", re.IGNORECASE)
_RETURNING = re.compile(r"\breturning\b", re.IGNORECASE)


_STATEMENTS_KEPT = 256
"""Of how many statements the text is kept on the side of JavaScript."""

_LONGEST_KEPT = 10_000
"""Longer statements, in characters, are handed over anew each time."""


class WorkersSql:
    """SQL on the Durable Object's own database."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._statements: dict[str, Callable[..., Any]] = {}
        self.rows_read: int = 0
        self.rows_written: int = 0
        self.rollbacks = 0
        self.keeps_writes_together = True
        self.counting = False
        """Whether to keep the two counters; reading them costs about as much as a statement."""

    def execute(self, sql: str, *bindings: SqlValue) -> list[list[SqlValue]]:
        """See :meth:`palimpsest.hosts.interface.Sql.execute`."""
        run = self._statement(sql, len(bindings))
        values = map(_bindable, bindings)
        try:
            cursor = run(*values)
            rows = _read_rows(cursor) if _may_return_rows(sql) else []
        except JsException as error:
            raise _sql_error(error) from None
        if self.counting:
            self.rows_read += cursor.rowsRead
            self.rows_written += cursor.rowsWritten
        return rows

    def value(self, sql: str, *bindings: SqlValue) -> SqlValue:
        """See :meth:`palimpsest.hosts.interface.Sql.value`."""
        run = self._statement(sql, len(bindings))
        values = map(_bindable, bindings)
        try:
            cursor = run(*values)
            value = cursor.one().value
        except JsException as error:
            raise _sql_error(error) from None
        except AttributeError:
            raise SqlError("no such column: value") from None
        if self.counting:
            self.rows_read += cursor.rowsRead
            self.rows_written += cursor.rowsWritten
        if value is jsnull:
            return None
        return bytes_of(value) if isinstance(value, JsProxy) else value

    def _statement(self, sql: str, bindings: int) -> Callable[..., Any]:
        """Runs the statement with what it is called with.

        The text of a statement crosses to JavaScript character by character and would be hashed
        there at every call: that takes longer than a short statement.
        """
        run = self._statements.get(sql)
        if run is None or bindings > MAX_BOUND_PARAMETERS:
            check_statement(sql, bindings)
            run = self._sql.exec.bind(self._sql, sql)
            if len(sql) <= _LONGEST_KEPT:
                if len(self._statements) >= _STATEMENTS_KEPT:
                    self._statements.clear()
                self._statements[sql] = run
        return run

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


def _bindable(value: SqlValue) -> Any:
    """The value as it crosses the boundary; the common kinds first, as this is a hot path."""
    if isinstance(value, str) and len(value) < _PLAIN_TEXT and value.isascii():
        return value
    checked = check_value(value)
    if isinstance(checked, bytes):
        return to_js(checked)
    if isinstance(checked, int):
        # Binds as REAL anyway; a large ``int`` might cross as a BigInt, which SQL refuses.
        return float(checked)
    return checked


@lru_cache(maxsize=512)
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
