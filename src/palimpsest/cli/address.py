"""Where an agent is: from what a person types to the addresses a client needs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode, urlsplit, urlunsplit

from palimpsest.errors import PalimpsestError


class AddressError(PalimpsestError):
    """The address of an agent cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """The agent's HTTP address without a trailing slash, and the session that is talked to."""

    base: str
    session: str = ""
    token: str = ""
    """For deployments that ask for one; sent as a header, never in an address."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def http(self, path: str = "", **query: str | int) -> str:
        """The address of an endpoint; ``session`` is added unless given."""
        parameters = {"session": self.session, **query}
        return f"{self.base}/{path}?{urlencode(parameters)}"

    def websocket(self, connection_id: str) -> str:
        """The address to open the socket at."""
        scheme, rest = self.base.split(":", 1)
        socket_scheme = "wss" if scheme == "https" else "ws"
        return (
            f"{socket_scheme}:{rest}?{urlencode({'_pk': connection_id, 'session': self.session})}"
        )

    def in_session(self, session: str) -> AgentAddress:
        """The same agent, another session."""
        return AgentAddress(self.base, session, self.token)


def parse_address(
    text: str, *, agent: str, name: str, session: str, token: str = ""
) -> AgentAddress:
    """Read the address of a Worker (``http://host:8787``) or of an agent (``…/agents/class/name``).

    The page's own address (``http://host:8787/?agent=ada``) means the agent that the page shows.

    :param agent: the kebab-case class of the agent, used when the address names none.
    :param name: the name of the agent, used when the address names none.
    :raises AddressError: not an HTTP or WebSocket address.
    """
    with_scheme = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(with_scheme)
        _ = parts.port
    except ValueError as error:
        raise AddressError(f"{text!r} is not an address: {error}") from error
    schemes = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
    if parts.scheme not in schemes or not parts.hostname:
        raise AddressError(f"{text!r} is not an http(s) or ws(s) address")
    path = parts.path.rstrip("/")
    if not path:
        shown = parse_qs(parts.query).get("agent", [name])[0]
        path = f"/agents/{quote(agent, safe='')}/{quote(shown, safe='')}"
    return AgentAddress(
        urlunsplit((schemes[parts.scheme], parts.netloc, path, "", "")), session, token
    )
