"""Schedules and the queue of an object that the TypeScript package wrote go on here."""

from __future__ import annotations

from typing import Any

from actors import restarted, started

from palimpsest.actor.agent import Agent

TABLES = """
create table cf_agents_schedules (id text primary key not null, callback text, payload text,
  type text not null, time integer, delayInSeconds integer, cron text, intervalSeconds integer,
  running integer default 0, created_at integer, execution_started_at integer, retry_options text,
  owner_path text, owner_path_key text);
create table cf_agents_queues (id text primary key not null, payload text, callback text,
  created_at integer, retry_options text)
"""


class Upgraded(Agent):
    """The same agent, written in Python."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.seen: list[Any] = []

    def send_reminder(self, payload: Any) -> None:
        self.seen.append(("reminder", payload))

    def tick(self, payload: Any) -> None:
        self.seen.append(("tick", payload))

    def on_start(self) -> None:
        self.schedule_every(60, "tick", {"n": 1})
        self.schedule("0 0 1 1 *", "tick", None)


async def test_old_schedules_and_queue_items_are_taken_over_once(host: Any) -> None:
    host.sql.execute(TABLES)
    seconds = host.now() // 1000
    insert = (
        "insert into cf_agents_schedules (id, callback, payload, type, time, delayInSeconds, cron,"
        " intervalSeconds, owner_path) values (?, ?, ?, ?, cast(? as integer), ?, ?, ?, ?)"
    )
    rows: list[tuple[Any, ...]] = [
        ("a", "sendReminder", '"x"', "delayed", seconds + 30, 30, None, None, None),
        ("b", "sendReminder", '{"at":1}', "scheduled", seconds + 40, None, None, None, None),
        ("c", "tick", '{"n":1}', "interval", seconds + 10, None, None, 60, None),
        ("d", "tick", "null", "cron", seconds + 9_000_000, None, "0 0 1 1 *", None, None),
        ("e", "vanished", "1", "delayed", seconds + 5, 5, None, None, None),
        ("f", "tick", "1", "delayed", seconds + 5, 5, None, None, '["child"]'),
    ]
    for row in rows:
        host.sql.execute(insert, *row)
    for number in (1, 2):
        host.sql.execute(
            "insert into cf_agents_queues (id, payload, callback, created_at) values (?, ?, ?, ?)",
            f"q{number}",
            str(number),
            "sendReminder",
            number,
        )
    agent = await started(host, Upgraded)
    assert [s.type for s in agent.list_schedules()].count("interval") == 1
    assert len(agent.list_schedules()) == 5
    assert agent.get_schedule("a").callback == "send_reminder"  # type: ignore[union-attr]
    await host.advance(45)
    assert agent.seen == [
        ("reminder", 1),
        ("reminder", 2),
        ("tick", {"n": 1}),
        ("reminder", "x"),
        ("reminder", {"at": 1}),
    ]
    assert [letter.error for letter in agent.dead_letters()] == [
        "Upgraded has no method 'vanished' any more"
    ]
    agent = await restarted(agent)
    assert {s.type for s in agent.list_schedules()} == {"interval", "cron"}
    tables = agent.host.sql.execute("select name from sqlite_master where name like 'cf_agents_%'")
    assert not {"cf_agents_schedules", "cf_agents_queues"} & {row[0] for row in tables}
