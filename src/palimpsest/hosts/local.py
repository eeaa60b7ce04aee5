"""The local host: ``sqlite3`` and a movable clock, with the platform's limits enforced.

For tests and for tools outside the Worker. Whatever would be refused or changed by a Durable
Object is refused or changed here in the same way: integers bind as REAL, values end at 2 MB,
statements at 100 parameters, LIKE patterns at 50 bytes, and ``BEGIN`` is not for the caller.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sqlite3
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from palimpsest.errors import LimitError, SqlError, TransactionError, UniqueViolationError
from palimpsest.hosts.background import BackgroundTasks
from palimpsest.hosts.interface import (
    MAX_BOUND_PARAMETERS,
    MAX_INTEGER,
    MAX_PATTERN_BYTES,
    MAX_VALUE_BYTES,
    FetchResponse,
    HttpResponse,
    Socket,
    SqlValue,
    T,
)
from palimpsest.hosts.limits import (
    check_socket_message,
    check_statement,
    check_tags,
    check_value,
    dump_attachment,
)
from palimpsest.hosts.local_http import send_request

_NUMBERED = re.compile(r"\?\d")
_CONTROL = re.compile(r"\s*(begin|commit|end|rollback|savepoint|release|attach|vacuum)\b", re.I)


class _Connection(sqlite3.Connection):
    """Closed when it is dropped: newer Pythons warn of a connection that is not."""

    def __del__(self) -> None:
        self.close()


class LocalSql:
    """SQL on a ``sqlite3`` database, bound and limited as on the platform."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, factory=_Connection
        )
        self._connection.execute("pragma foreign_keys = on")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, MAX_BOUND_PARAMETERS)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, 100)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 5)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100)
        self._depth = 0
        self._gone = False
        self.rows_read = 0
        self.rows_written = 0
        self.rollbacks = 0
        self.keeps_writes_together = False

    def execute(self, sql: str, *bindings: SqlValue) -> list[list[SqlValue]]:
        """See :meth:`palimpsest.hosts.interface.Sql.execute`."""
        if self._gone:
            raise SqlError("this instance was dropped: another one owns the database now")
        if _CONTROL.match(sql):
            raise SqlError("use sql.transaction(): the platform refuses transaction statements")
        check_statement(sql, len(bindings))
        values = [bind_value(value) for value in bindings]
        changes = self._connection.total_changes
        try:
            rows = self._run(sql, values)
        except sqlite3.IntegrityError as error:
            if "UNIQUE" in str(error):
                raise UniqueViolationError(str(error)) from error
            raise SqlError(str(error)) from error
        except sqlite3.DataError as error:
            raise LimitError(f"SQLite: {error}") from error
        except sqlite3.Error as error:
            if "too big" in str(error):
                raise LimitError(f"a value is at most {MAX_VALUE_BYTES} bytes") from error
            raise SqlError(str(error)) from error
        self.rows_read += len(rows)
        self.rows_written += self._connection.total_changes - changes
        return rows

    def value(self, sql: str, *bindings: SqlValue) -> SqlValue:
        """See :meth:`palimpsest.hosts.interface.Sql.value`."""
        rows = self.execute(f"select value from ({sql}\n)", *bindings)
        if len(rows) != 1:
            raise SqlError(f"a statement should return one row, and returned {len(rows)}")
        return rows[0][0]

    def _run(self, sql: str, values: list[SqlValue]) -> list[list[SqlValue]]:
        if ";" in sql.rstrip().rstrip(";"):
            *statements, sql = split_statements(sql)
            for statement in statements:
                self._connection.execute(statement)
        if values and _NUMBERED.search(sql) is not None:
            # Newer Pythons take numbered parameters for named ones, whose names are the numbers.
            by_number = {str(number): value for number, value in enumerate(values, 1)}
            return self._fetch(self._connection.execute(sql, by_number))
        return self._fetch(self._connection.execute(sql, values))

    def _fetch(self, cursor: sqlite3.Cursor) -> list[list[SqlValue]]:
        return [[_read_value(value) for value in row] for row in cursor.fetchall()]

    def transaction(self, body: Callable[[], T]) -> T:
        """See :meth:`palimpsest.hosts.interface.Sql.transaction`."""
        if inspect.iscoroutinefunction(body):
            raise TransactionError("a transaction's body must not be async")
        savepoint = f"palimpsest_{self._depth}"
        self._connection.execute(f"savepoint {savepoint}")
        self._depth += 1
        try:
            result = body()
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TransactionError("a transaction's body must not return an awaitable")
        except BaseException:
            self.rollbacks += 1
            self._connection.execute(f"rollback to {savepoint}")
            self._connection.execute(f"release {savepoint}")
            raise
        finally:
            self._depth -= 1
        self._connection.execute(f"release {savepoint}")
        return result

    def database_size(self) -> int:
        """Bytes that the database occupies."""
        pages = self._connection.execute("pragma page_count").fetchone()[0]
        return pages * self._connection.execute("pragma page_size").fetchone()[0]

    def drop_everything(self) -> None:
        """Remove all tables and views."""
        self._connection.execute("pragma foreign_keys = off")
        views = self._connection.execute("select name from sqlite_master where type = 'view'")
        for (name,) in views.fetchall():
            self._connection.execute(f'drop view "{name}"')
        names = self._connection.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
            " order by sql like 'create virtual%' desc"
        ).fetchall()
        for (name,) in names:
            with suppress(sqlite3.OperationalError):  # shadow tables went with their virtual one
                self._connection.execute(f'drop table if exists "{name}"')
        self._connection.execute("pragma foreign_keys = on")

    def handed_over(self) -> LocalSql:
        """The same database for the next instance; this one can no longer reach it."""
        successor = LocalSql.__new__(LocalSql)
        successor.__dict__.update(self.__dict__)
        self._gone = True
        return successor

    def close(self) -> None:
        """Close the database file."""
        self._connection.close()


def bind_value(value: object) -> SqlValue:
    """The value as the platform would bind it: every integer becomes REAL.

    :raises BindingError: the platform would store something else than the value.
    :raises LimitError: it is too large.
    """
    checked = check_value(value)
    return float(checked) if isinstance(checked, int) else checked


def _read_value(value: SqlValue) -> SqlValue:
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER:
        return int(value)
    return value


def split_statements(sql: str) -> list[str]:
    """The statements of a script, in order."""
    statements: list[str] = []
    pending = ""
    for piece in re.split(r"(?<=;)", sql):
        pending += piece
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    if pending.strip():
        statements.append(pending)
    return statements


class LocalSocket:
    """The server's end of a connected WebSocket; what was sent is kept in :attr:`sent`."""

    def __init__(self, host: LocalHost, tags: list[str]) -> None:
        self._host = host
        self._tags = tags
        self._attachment: str | None = None
        self.sent: list[str | bytes] = []
        """Every message the server sent, oldest first."""
        self.closed: tuple[int, str] | None = None
        """The code and reason of the close, None while open."""
        self.listener: Callable[[str | bytes], None] | None = None
        """Told of each message as it is sent."""

    @property
    def tags(self) -> list[str]:
        """The tags given at acceptance."""
        return list(self._tags)

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return self.closed is None

    def send(self, data: str | bytes) -> None:
        """See :meth:`palimpsest.hosts.interface.Socket.send`."""
        check_socket_message(data)
        if self.closed is None:
            self.sent.append(data)
            if self.listener is not None:
                self.listener(data)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """See :meth:`palimpsest.hosts.interface.Socket.close`."""
        if self.closed is None:
            self.closed = (code, reason)
            self._host.forget_socket(self)

    def move_to(self, host: LocalHost) -> None:
        """Belong to the next instance, as a hibernating socket does."""
        self._host = host

    def get_attachment(self) -> Any:
        """See :meth:`palimpsest.hosts.interface.Socket.get_attachment`."""
        return None if self._attachment is None else json.loads(self._attachment)

    def set_attachment(self, value: Any) -> None:
        """See :meth:`palimpsest.hosts.interface.Socket.set_attachment`."""
        self._attachment = dump_attachment(value)


class LocalHost:
    """A host in memory, or on a database file, whose clock and alarm a test moves by hand.

    :param path: a database file; None keeps everything in memory.
    :param name: the object's name.
    :param environment: variables, secrets and bindings.
    :param start: the clock's first reading in ms since 1970; None reads the system's clock.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        name: str = "local",
        environment: Mapping[str, Any] | None = None,
        start: int | None = None,
    ) -> None:
        self.sql = LocalSql(":memory:" if path is None else str(path))
        self.name = name
        self.environment: Mapping[str, Any] = dict(environment or {})
        self.jobs: Any = None
        self.alarm_handler: Callable[[], Awaitable[None]] | None = None
        self.auto_responses: dict[str, str] = {}
        self.logged: list[Mapping[str, Any]] = []
        """Every event given to :meth:`log`, oldest first."""
        self.aborted: str | None = None
        """The reason of the last :meth:`abort`."""
        self._clock = int(time.time() * 1000) if start is None else start
        self._alarm: int | None = self._stored_alarm()
        self._sockets: list[LocalSocket] = []
        self._background = BackgroundTasks(self.log)

    def now(self) -> int:
        """The movable clock, in ms since 1970."""
        return self._clock

    def random_id(self) -> str:
        """A fresh UUID."""
        return str(uuid.uuid4())

    def _stored_alarm(self) -> int | None:
        self.sql.execute("create table if not exists local_alarm (at integer not null)")
        rows = self.sql.execute("select at from local_alarm")
        return int(rows[0][0] or 0) if rows else None

    def set_alarm(self, at: int) -> None:
        """See :meth:`palimpsest.hosts.interface.Host.set_alarm`."""
        if at <= 0:
            raise ValueError(f"an alarm's time must be positive, got {at}")
        self.delete_alarm()
        self.sql.execute("insert into local_alarm (at) values (?)", at)
        self._alarm = at

    def delete_alarm(self) -> None:
        """Disarm the alarm."""
        self.sql.execute("create table if not exists local_alarm (at integer not null)")
        self.sql.execute("delete from local_alarm")
        self._alarm = None

    async def get_alarm(self) -> int | None:
        """When the alarm is armed for."""
        return self._alarm

    async def run_alarm(self) -> bool:
        """Fire the alarm if it is armed and due; whether it fired.

        An alarm whose handler fails is armed again for two seconds later, as the platform does.
        """
        armed = self._alarm
        if armed is None or armed > self._clock or self.alarm_handler is None:
            return False
        self.delete_alarm()
        try:
            await self.alarm_handler()
        except Exception:
            if self._alarm is None:
                self.set_alarm(self._clock + 2000)
            raise
        return True

    async def advance(self, seconds: float) -> None:
        """Move the clock forward, firing every alarm on the way at its own time."""
        end = self._clock + int(seconds * 1000)
        while self._alarm is not None and self._alarm <= end and self.alarm_handler is not None:
            self._clock = max(self._clock, self._alarm)
            await self.run_alarm()
            await asyncio.sleep(0)
        self._clock = max(self._clock, end)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """See :meth:`palimpsest.hosts.interface.Host.spawn`."""
        return self._background.spawn(work, name)

    async def background_idle(self) -> None:
        """Wait until all spawned work has ended."""
        await self._background.idle()

    def accept_socket(
        self, tags: Sequence[str], attachment: Any
    ) -> tuple[LocalSocket, HttpResponse]:
        """See :meth:`palimpsest.hosts.interface.Host.accept_socket`."""
        check_tags(tags)
        socket = LocalSocket(self, list(tags))
        socket.set_attachment(attachment)
        self._sockets.append(socket)
        return socket, HttpResponse(101, upgrade=socket)

    def refuse_socket(self, code: int, reason: str) -> HttpResponse:
        """See :meth:`palimpsest.hosts.interface.Host.refuse_socket`."""
        socket = LocalSocket(self, [])
        socket.close(code, reason)
        return HttpResponse(101, upgrade=socket)

    def sockets(self, tag: str | None = None) -> list[Socket]:
        """The open sockets, or those that carry ``tag``."""
        return [socket for socket in self._sockets if tag is None or tag in socket.tags]

    def forget_socket(self, socket: LocalSocket) -> None:
        """Drop a closed socket from the list."""
        if socket in self._sockets:
            self._sockets.remove(socket)

    def set_auto_response(self, request: str, response: str) -> None:
        """Remember a text that is answered without waking the object."""
        self.auto_responses = {request: response}

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> FetchResponse:
        """See :meth:`palimpsest.hosts.interface.Host.fetch`."""
        return await send_request(method, url, headers, body, timeout)

    def delete_all(self) -> None:
        """Remove every table and the alarm."""
        self.sql.drop_everything()
        self._alarm = None

    def abort(self, reason: str) -> None:
        """Note that the instance would be dropped; a test makes the next instance itself."""
        self.aborted = reason

    def log(self, event: Mapping[str, Any]) -> None:
        """Keep the event; failures also go to standard error."""
        self.logged.append(dict(event))
        if "error" in event:
            print(json.dumps(event, ensure_ascii=False, default=repr), file=sys.stderr)

    def restarted(self) -> LocalHost:
        """A new host over the same storage and sockets, as after an eviction.

        In-memory state (jobs, handlers, tasks) is gone; rows, alarm, sockets with their tags and
        attachments, and the clock stay. The old instance's tasks are cancelled, and nothing that
        they still try reaches the database.
        """
        if self.jobs is not None:
            self.jobs.stop_all()
        self.stop_background()
        successor = LocalHost.__new__(LocalHost)
        successor.__dict__.update(self.__dict__)
        successor.sql = self.sql.handed_over()
        successor.jobs = None
        successor.alarm_handler = None
        successor._background = BackgroundTasks(successor.log)
        for socket in self._sockets:
            socket.move_to(successor)
        return successor

    def stop_background(self) -> None:
        """Cancel all spawned work."""
        self._background.cancel()

    def close(self) -> None:
        """Close the database."""
        self.sql.close()
