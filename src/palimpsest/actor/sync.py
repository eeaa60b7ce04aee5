"""The protocol's frames about identity and state (wire protocol of the npm ``agents`` client)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palimpsest.actor.connections import Connection
from palimpsest.actor.current import current
from palimpsest.actor.hooks import Hooks, settle
from palimpsest.errors import ConnectionStateError, StateRejectedError, error_words

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent

READONLY = "Connection is readonly"
REJECTED = "State update rejected"


def greet(agent: Agent, connection: Connection) -> None:
    """The first frames of a connection: identity, state if there is one, MCP servers.

    ``stateFollows`` is sent only with a state frame: a client that sees it waits for one.
    """
    state = agent.state_sync
    if agent.send_identity:
        identity: dict[str, Any] = {
            "type": "cf_agent_identity",
            "name": agent.name,
            "agent": agent.agent_name,
        }
        if state.exists:
            identity["stateFollows"] = True
        connection.send(identity)
    if state.exists:
        connection.send({"type": "cf_agent_state", "state": state.json})
    connection.send({"type": "cf_agent_mcp_servers", "mcp": agent.mcp_servers()})


def set_from_server(agent: Agent, value: Any) -> None:
    """The agent's own code sets the state: see :meth:`Agent.set_state`."""
    work = current()
    connection = work.connection if work is not None and work.agent is agent else None
    if connection is not None and connection.readonly:
        raise ConnectionStateError(READONLY)
    _change(agent, value, "server")


def take_from_client(agent: Agent, connection: Connection, frame: Mapping[str, Any]) -> None:
    """A client sets the state. A refusal goes to that client alone, with the state that stands."""
    if connection.readonly:
        _refuse(agent, connection, READONLY, READONLY)
        return
    if "state" not in frame:
        _refuse(agent, connection, REJECTED, "the frame has no state")
        return
    try:
        _change(agent, frame["state"], connection)
    except Exception as error:
        _refuse(agent, connection, REJECTED, error_words(error))


def _refuse(agent: Agent, connection: Connection, text: str, reason: str) -> None:
    """The client has shown its own value already: give it back the one that stands."""
    agent.events.count("state.rejected")
    if not connection.protocol_enabled:
        return
    connection.send({"type": "cf_agent_state_error", "error": text, "reason": reason[:500]})
    if agent.state_sync.exists:
        connection.send({"type": "cf_agent_state", "state": agent.state_sync.json})


def _change(agent: Agent, value: Any, source: Connection | str) -> None:
    """Check, then store, then broadcast to all but the originator, then tell the hook."""
    state = agent.state_sync
    checked = state.check(value)
    try:
        agent.validate_state(checked[0], source)
    except StateRejectedError:
        raise
    except Exception as error:
        raise StateRejectedError(error_words(error)) from error
    state.commit(checked)
    agent.events.count("state.changed")
    agent.connections.broadcast(
        {"type": "cf_agent_state", "state": state.json},
        exclude=[source] if isinstance(source, Connection) else (),
        protocol_only=True,
    )
    if type(agent).on_state_changed is not Hooks.on_state_changed:
        agent.host.spawn(_tell(agent, state.value, source), name="on_state_changed")


async def _tell(agent: Agent, value: Any, source: Connection | str) -> None:
    try:
        await settle(agent.on_state_changed(value, source))
    except Exception as error:
        connection = source if isinstance(source, Connection) else None
        await agent.report("on_state_changed.failed", error, connection)
