"""The agent: one named actor with state, connections, callable methods and durable jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from palimpsest.actor import calls, sync
from palimpsest.actor.access import Access
from palimpsest.actor.callables import callables_of
from palimpsest.actor.connections import (
    Connection,
    Connections,
    connection_id,
)
from palimpsest.actor.current import working
from palimpsest.actor.events import Events
from palimpsest.actor.hooks import Decision, Reject, settle
from palimpsest.actor.http import error_response, json_response, method_refused
from palimpsest.actor.legacy import take_over_work
from palimpsest.actor.rate import RateBuckets, RateLimit
from palimpsest.actor.routing import kebab_case
from palimpsest.actor.state import StateSync
from palimpsest.actor.work import Work
from palimpsest.errors import DestroyedError
from palimpsest.hosts.interface import Host, HttpRequest, HttpResponse, Socket
from palimpsest.jobs import Jobs
from palimpsest.json_input import load_json

DESTROY = "destroy"
"""The mark among the jobs that says that the agent is to be removed."""

GONE_CODE = 4410
"""Close code of connections to an agent that was destroyed: clients do not reconnect."""

MAX_CONNECTION_URL_BYTES = 8_192
"""The longest address of a connection: it is kept with the socket, whose attachment is small."""

TOO_FAST_CODE = 4429
"""Close code of a connection that sends faster than ``message_rate``; clients do not retry it."""


class Agent(Work):
    """A durable agent: subclass it, override hooks, mark methods with ``@callable_method``.

    One instance lives in one Durable Object, and only one of its methods runs at any moment; other
    events may run whenever a method awaits. What must survive goes into the state, a session, the
    attachments of connections or SQL: the instance itself is dropped while the agent is idle.
    """

    initial_state: ClassVar[Any] = None
    """The state until one is set, or a function that makes it; None means that there is none."""

    state_type: ClassVar[Any] = None
    """A type for pydantic to check the state with and to give it out in; None keeps plain JSON."""

    send_identity: ClassVar[bool] = True
    """Whether clients are told the agent's name; without it ``client.ready`` never resolves."""

    ping: ClassVar[tuple[str, str] | None] = ("ping", "pong")
    """A message that the platform answers by itself, without waking the agent; None for none."""

    status_path: ClassVar[str | None] = "status"
    """The path under the agent's address that answers GET with counters; None for none."""

    message_rate: ClassVar[RateLimit | None] = RateLimit(burst=5_000, per_second=1_000)
    """How fast one connection may send; a faster one is closed with 4429. None for no limit."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.jobs = Jobs.of(host)
        host.alarm_handler = self.handle_alarm
        self.connections = Connections(host)
        self.events = Events(host, kebab_case(type(self).__name__))
        self._access = Access(host, self.agent_name)
        self._rate = None if self.message_rate is None else RateBuckets(self.message_rate)
        self.starting = False
        """Whether ``on_start`` runs now."""
        self._state: StateSync | None = None
        self._destroying = False
        self._answers_pings = False
        self.open_streams = calls.OpenStreams(self)
        self._open_work()

    # --- identity ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The object's name, the last part of its address."""
        return self.host.name

    @property
    def agent_name(self) -> str:
        """The class's name as it stands in URLs."""
        return kebab_case(type(self).__name__)

    @property
    def has_tokens(self) -> bool:
        """Whether the deployment asks for tokens."""
        return self._access.is_on

    # --- state ---------------------------------------------------------------------------------

    @property
    def state_sync(self) -> StateSync:
        """The state's store and checks."""
        if self._state is None:
            self._state = StateSync(self.host, initial=self.initial_state, kind=self.state_type)
        return self._state

    @property
    def state(self) -> Any:
        """The state that clients see. Change it with :meth:`set_state`, never in place."""
        return self.state_sync.value

    def set_state(self, state: Any) -> None:
        """Replace the state, store it, and send it to every protocol connection.

        :raises StateRejectedError: it is of the wrong type, too large, or ``validate_state``
            refused it; nothing has changed.
        :raises ConnectionStateError: a callable method runs for a readonly connection.
        """
        sync.set_from_server(self, state)

    # --- connections ---------------------------------------------------------------------------

    def broadcast(
        self,
        message: str | bytes | Mapping[str, Any] | Sequence[Any],
        *,
        exclude: Collection[str | Connection] = (),
        tag: str | None = None,
    ) -> int:
        """Send a message to all connections, or those with a tag; how many got it."""
        return self.connections.broadcast(message, exclude=exclude, tag=tag)

    def callable_methods(self) -> list[dict[str, Any]]:
        """Name, description and JSON Schema of every method that clients may call."""
        return [method.schema() for method in callables_of(type(self)).values()]

    def mcp_servers(self) -> dict[str, Any]:
        """What clients are told of MCP servers: none, unless a subclass connects to some."""
        return {"servers": {}, "tools": [], "prompts": [], "resources": []}

    # --- the end -------------------------------------------------------------------------------

    async def destroy(self) -> None:
        """Remove the agent: all storage, the alarm and all connections; the instance is dropped.

        The wish is stored first and carried out by the alarm, so that it is also carried out
        when the process dies in between. Clients are told by close code 4410 not to reconnect.
        Until the deletion is done, a moment later, requests are answered with status 410.
        """
        self._destroying = True
        self.jobs.end_with_mark(DESTROY)
        self.events.emit("agent.destroying")
        for connection in self.connections:
            connection.close(GONE_CODE, "the agent was destroyed")

    async def _destroy_now(self) -> None:
        """Delete everything. Running work is stopped first, so that it writes nothing after."""
        self._destroying = True
        self.jobs.stop_all()
        self.cancel_background()
        await asyncio.sleep(0)
        self.host.delete_all()
        self.events.emit("agent.destroyed")

    # --- extension points for the library's own subclasses -------------------------------------

    async def prepare(self) -> None:
        """Before ``on_start``: a library subclass registers its job kinds here."""

    async def handle_frame(self, connection: Connection, frame: Mapping[str, Any]) -> bool:
        """A JSON object with a string ``type`` came; whether it was one of the protocol's.

        A subclass tries its own types and leaves the rest to ``super()``.
        """
        kind = frame["type"]
        if kind == "rpc":
            await calls.answer_frame(self, connection, frame)
        elif kind == "cf_agent_state":
            sync.take_from_client(self, connection, frame)
        else:
            return False
        return True

    async def handle_path(
        self, request: HttpRequest, segments: Sequence[str]
    ) -> HttpResponse | None:
        """Answer an HTTP request of the library's own; None leaves it to ``on_request``.

        A subclass tries its own paths and leaves the rest to ``super()``. HEAD comes as GET; the
        body is left out afterwards.

        :param segments: the segments of the URL's path, all of them, undecoded. Match the last
            ones: what stands before depends on how the Worker routes.
        """
        if segments[-1:] == [self.status_path] and request.method == "GET":
            return json_response(await self.status())
        return None

    def check_connection(self, request: HttpRequest) -> Reject | None:
        """Refuse a connection that can never be: a subclass adds its own reasons to ``super()``'s.

        Without that its client would come back for ever.
        """
        if len(request.url.encode()) > MAX_CONNECTION_URL_BYTES:
            return Reject("the address is too long", 4414, 414)
        return None

    async def connected(self, connection: Connection, request: HttpRequest) -> None:
        """After ``on_connect``: a subclass sends its own first frames.

        Only called for connections that get the protocol's frames.
        """

    async def disconnected(self, connection: Connection) -> None:
        """Before ``on_close``: a subclass forgets what it holds for the connection."""

    async def status(self) -> dict[str, Any]:
        """Counters for operators; never contents. A subclass adds its own to ``super()``'s."""
        return {
            "agent": self.agent_name,
            "name": self.name,
            "now": self.host.now(),
            "connections": len(self.connections),
            "databaseBytes": self.host.sql.database_size(),
            "heapBytes": heap_bytes(self.host),
            "jobs": dict(self.jobs.counts()),
            "jobRuns": {"completed": self.jobs.completed, "failed": self.jobs.failed},
            "running": self.jobs.running,
            "leases": self.jobs.leases,
            "nextAlarm": await self.host.get_alarm(),
            **self.work_counts(),
            "events": dict(self.events.counts),
            "lastErrors": self.events.last_errors(),
        }

    # --- what the host calls -------------------------------------------------------------------

    async def handle_start(self) -> None:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        wake = self.jobs.look(DESTROY)
        if wake.marked:
            await self._destroy_now()
            raise DestroyedError("the agent was being destroyed; the next event finds a new one")
        if wake.legacy_tables:
            take_over_work(self)
        await self.prepare()
        self.starting = True
        try:
            with working(self):
                await settle(self.on_start())
        finally:
            self.starting = False
        if wake.inline_fibers:
            await self.recover_fibers()
        await self.jobs.check_alarm()
        if wake.failed_starts:
            self.jobs.started()
        self.events.count("agent.started")

    async def handle_request(self, request: HttpRequest) -> HttpResponse:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        upgrade = request.headers.get("upgrade", "").lower() == "websocket"
        if self._destroying:
            return error_response(410, "gone", "the agent was destroyed")
        with working(self, request=request):
            try:
                grant = self._access.check(request)
                if isinstance(grant, Reject):
                    return self._refuse(grant, upgrade=upgrade)
                hook = self.before_connect if upgrade else self.before_request
                decision: Decision = await settle(hook(request))
                if isinstance(decision, HttpResponse):
                    return decision
                if isinstance(decision, Reject):
                    return self._refuse(decision, upgrade=upgrade)
                request = decision or request
                if upgrade:
                    refusal = self.check_connection(request)
                    if refusal is not None:
                        return self._refuse(refusal, upgrade=True)
                    return await self._connect(request, watcher=bool(grant and grant.readonly))
                return await self._answer(request)
            except Exception as error:
                await self.report("request.failed", error)
                if upgrade:  # clients cannot see a status, and hooks may fail for a while
                    return self.host.refuse_socket(1011, "the connection could not be set up")
                return error_response(500, "failed", "the agent failed to answer")

    def refuse(self, request: HttpRequest) -> HttpResponse | None:
        """A refusal that needs no more than the request's head; None where there is none.

        A host may ask before it reads a body, so that it reads none of a stranger's.
        """
        if self._destroying:
            return error_response(410, "gone", "the agent was destroyed")
        grant = self._access.check(request)
        upgrade = request.headers.get("upgrade", "").lower() == "websocket"
        return self._refuse(grant, upgrade=upgrade) if isinstance(grant, Reject) else None

    def _refuse(self, decision: Reject, *, upgrade: bool) -> HttpResponse:
        self.events.count("request.refused")
        if not upgrade:
            return error_response(decision.status, "refused", decision.reason)
        return self.host.refuse_socket(decision.code, decision.reason)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        segments = [part for part in urlsplit(request.url).path.split("/") if part]
        head = request.method == "HEAD"
        asked = replace(request, method="GET") if head else request
        response = await self.handle_path(asked, segments)
        if response is not None:
            # The body was not begun, so nothing is left to be ended.
            return HttpResponse(response.status, response.headers) if head else response
        response = await settle(self.on_request(request))
        if response is None and segments[-1:] == [self.status_path]:
            return method_refused(["GET"])
        return response or error_response(404, "not_found", "this agent has nothing here")

    async def _connect(self, request: HttpRequest, *, watcher: bool) -> HttpResponse:
        if self.ping is not None and not self._answers_pings:
            self._answers_pings = True
            self.host.set_auto_response(*self.ping)
        protocol = self.connection_protocol(request)
        connection, response = self.connections.accept(
            identifier=connection_id(request.url) or self.host.random_id(),
            url=request.url,
            tags=self.connection_tags(request),
            readonly=self.connection_readonly(request),
            watcher=watcher,
            protocol=protocol,
        )
        self.events.count("connection.opened")
        with working(self, connection=connection, request=request):
            try:
                if protocol:
                    sync.greet(self, connection)
                await settle(self.on_connect(connection, request))
                if protocol and connection.is_open:
                    await self.connected(connection, request)
            except Exception as error:
                await self.report("connection.failed", error, connection)
                connection.close(1011, "the connection could not be set up")
        return response

    async def handle_message(self, socket: Socket, message: str | bytes) -> None:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        if self._destroying:
            return
        connection = Connection(socket)
        if self._rate is not None and not self._rate.take(socket, self.host.now()):
            self.events.count("connection.too_fast")
            connection.close(TOO_FAST_CODE, "too many messages: wait, then connect again")
            return
        with working(self, connection=connection):
            try:
                frame = parse_frame(message)
                if frame is None or not await self.handle_frame(connection, frame):
                    await settle(self.on_message(connection, message))
            except Exception as error:
                await self.report("message.failed", error, connection)

    async def handle_close(self, socket: Socket, code: int, reason: str, clean: bool) -> None:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        connection = Connection(socket)
        self.events.count("connection.closed")
        if self._rate is not None:
            self._rate.forget(socket)
        with working(self, connection=connection):
            try:
                await self.disconnected(connection)
                await settle(self.on_close(connection, code, reason, clean))
            except Exception as error:
                await self.report("close.failed", error, connection)

    async def handle_error(self, socket: Socket, error: str) -> None:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        await self.report("socket.failed", ConnectionError(error), Connection(socket))

    async def handle_alarm(self) -> None:
        """See :class:`palimpsest.hosts.interface.Actor`. Failures are logged and never raised."""
        try:
            await self.jobs.run_due()
            if not self._destroying:
                with working(self):
                    await settle(self.on_alarm())
        except Exception as error:
            await self.report("alarm.failed", error)
        if self._destroying:
            await self._destroy_now()
            # Aborting inside the alarm would make the platform run the alarm again.
            self.host.spawn(self._abort_soon(), name="abort")

    async def _abort_soon(self) -> None:
        await asyncio.sleep(0.05)
        self.host.abort("destroyed")

    async def handle_call(self, method: str, arguments: list[Any]) -> Any:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        with working(self):
            return await calls.answer_call(self, method, arguments)

    async def report(
        self,
        event: str,
        error: BaseException,
        connection: Connection | None = None,
        **fields: Any,
    ) -> None:
        """Log a failure and tell ``on_error``, whose own failure is logged too.

        :param fields: ids and names to log with it.
        """
        if connection is not None:
            fields["connection"] = connection.id
        self.events.failure(event, error, **fields)
        try:
            await settle(self.on_error(error, connection))
        except Exception as second:
            self.events.failure("on_error.failed", second, **fields)


def heap_bytes(host: Host) -> int | None:
    """The memory that the interpreter occupies, where the host can tell."""
    measure: Any = getattr(host, "heap_bytes", None)
    return None if measure is None else int(measure())


def parse_frame(message: str | bytes) -> Mapping[str, Any] | None:
    """The message as a protocol frame: a JSON object with a string ``type``, else None."""
    if not isinstance(message, str) or not message.lstrip().startswith("{"):
        return None
    try:
        frame = load_json(message)
    except ValueError:
        return None
    if not isinstance(frame, dict):
        return None
    frame = cast("dict[str, Any]", frame)
    return frame if isinstance(frame.get("type"), str) else None
