"""What was forgotten stands in no table of the database any more, those of the index included."""

from __future__ import annotations

import base64

import pytest

from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, text_message
from palimpsest.session.changes import UNSET
from palimpsest.session.manager import SessionManager
from palimpsest.session.session import Session
from palimpsest.session.writing import Writer

SECRET = "zyxsecretword"
SECRETS = (SECRET, SECRET[:6], SECRET[3:], SECRET.capitalize(), "秘", "暗号")

_PICTURE = base64.b64encode(SECRET.encode() * 900).decode()

SHAPES: dict[str, Message] = {
    "short": text_message("m", "user", f"the word is {SECRET}"),
    "script without spaces": text_message("m", "user", f"我的秘密暗号是 {SECRET}"),
    "in pieces": text_message("m", "user", f"{SECRET} {'filler ' * 200_000}{SECRET}"),
    "in pieces without spaces": text_message("m", "user", "秘密暗号的话" * 40_000 + SECRET),
    "media": {
        "id": "m",
        "role": "user",
        "parts": [
            {
                "type": "file",
                "mediaType": "image/png",
                "filename": f"{SECRET}.png",
                "url": f"data:image/png;base64,{_PICTURE}",
            }
        ],
    },
    "tool": {
        "id": "m",
        "role": "assistant",
        "parts": [
            {
                "type": "tool-read",
                "toolCallId": "t",
                "state": "output-available",
                "input": {"query": SECRET},
                "output": f"{'filler ' * 30_000}{SECRET} 秘密暗号",
            }
        ],
    },
    "metadata": {
        "id": "m",
        "role": "user",
        "metadata": {"speaker": SECRET, "caption": f"秘密暗号 {SECRET}"},
        "parts": [{"type": "text", "text": f"get{SECRET.capitalize()}Name"}],
    },
}


def tables_that_hold(host: Host, secrets: tuple[str, ...]) -> list[str]:
    """The tables in whose bytes one of the texts stands; virtual ones by their own tables."""
    names = [
        str(row[0])
        for row in host.sql.execute(
            "select name from sqlite_master where type = 'table' and name not like '%\\_cf\\_%'"
            " escape '\\' and sql not like 'create virtual%'"
        )
    ]
    assert "assistant_fts_data" in names
    found: list[str] = []
    for name in names:
        columns = [str(row[1]) for row in host.sql.execute(f'pragma table_info("{name}")')]
        for secret in secrets:
            holds = " or ".join(
                f'instr(cast("{column}" as blob), cast(?1 as blob))' for column in columns
            )
            if host.sql.execute(f'select 1 from "{name}" where {holds} limit 1', secret):
                found.append(f"{name}: {secret}")
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("around", [0, 30])
async def test_nothing_of_a_forgotten_message_is_left(host: Host, shape: str, around: int) -> None:
    session = Session.create(host)
    for number in range(around):
        await session.append_message(
            text_message(f"b{number}", "user", f"ordinary {number} 普通话")
        )
    await session.append_message(SHAPES[shape])
    for number in range(around):
        await session.append_message(
            text_message(f"a{number}", "user", f"ordinary {number} 普通话")
        )
    assert tables_that_hold(host, (SECRET,)), "the test can see what is there"
    await session.forget(["m"])
    assert not tables_that_hold(host, SECRETS)
    assert len(await session.get_history()) == 2 * around + 1
    host.sql.execute("insert into assistant_fts (assistant_fts) values ('integrity-check')")


@pytest.mark.parametrize("shape", SHAPES)
async def test_nor_of_what_it_said_before_an_update(host: Host, shape: str) -> None:
    session = Session.create(host)
    await session.append_message(text_message("b", "user", "ordinary"))
    await session.append_message(text_message("m", "user", "short"))
    await session.update_message(SHAPES[shape])
    await session.append_message(text_message("a", "user", "ordinary"))
    await session.update_message(text_message("m", "system", f"{SECRET} once more"))
    await session.forget(["m"])
    assert not tables_that_hold(host, SECRETS)


@pytest.mark.parametrize("shape", SHAPES)
async def test_nor_where_it_was_changed_in_the_transaction_that_wrote_it(
    host: Host, shape: str
) -> None:
    session = Session.create(host)

    def write() -> None:
        stores = session.stores
        writer = Writer(host, stores, "")
        writer.append(SHAPES[shape], UNSET)
        writer.update(text_message("m", "user", "short"))

    host.sql.transaction(write)
    await session.forget(["m"])
    assert not tables_that_hold(host, SECRETS)


@pytest.mark.parametrize("shape", SHAPES)
async def test_nothing_of_a_deleted_session_is_left(host: Host, shape: str) -> None:
    manager = SessionManager.create(host)
    info = await manager.create_session("one")
    await manager.append(info.id, text_message("b", "user", "ordinary"))
    await manager.append(info.id, SHAPES[shape])
    other = await manager.create_session("other")
    await manager.append(other.id, text_message("o", "user", "ordinary 普通话"))
    await manager.get_session(info.id).update_message(text_message("m", "user", "short"))
    assert await manager.delete(info.id)
    assert not tables_that_hold(host, SECRETS)
    assert [one["id"] for one in await manager.get_history(other.id)] == ["o"]
