"""Ten thousand malformed, huge, repeated, reordered and out-of-turn frames."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from palimpsest.hosts.local import LocalHost
from tests.behaviour.chat_rig import Rig, Talker, user

FRAMES = 10_000

TRIGGERS = ("submit-message", "regenerate-message")

KINDS = [
    "cf_agent_use_chat_request",
    "cf_agent_chat_request_cancel",
    "cf_agent_chat_clear",
    "cf_agent_chat_messages",
    "cf_agent_stream_resume_request",
    "cf_agent_stream_resume_ack",
    "cf_agent_tool_result",
    "cf_agent_tool_approval",
    "cf_agent_state",
    "rpc",
    "cf_agent_use_chat_response",
    "unknown",
]


class Fuzz:
    """Frames that are nearly right, or not at all."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sent: list[str] = []

    def pick(self, *values: Any) -> Any:
        return self.random.choice(values)

    def identifier(self) -> Any:
        return self.pick("r1", "r2", "c1", "a1", "u1", "u2", "compaction_x", "\0", "é" * 300)

    def scalar(self) -> Any:
        return self.pick(
            None, True, False, 0, -1, 1e308, "", "x", [], {}, [[]], "\ud800", "'; drop table x;--"
        )

    def part(self) -> Any:
        return self.pick(
            {"type": "text", "text": self.pick("hello", "tool", "approve x", "slow y", "fail z")},
            {"type": "text", "text": "w" * 20_000},
            {"type": "text"},
            {"type": "tool-locate", "toolCallId": "c1", "state": "output-available", "output": 1},
            {"type": "tool-locate", "toolCallId": "c1", "state": self.scalar()},
            {"type": 5},
            self.scalar(),
        )

    def message(self) -> Any:
        return self.pick(
            user(f"u{self.random.randrange(400)}", self.pick("hello", "tool", "fail it")),
            {
                "id": self.identifier(),
                "role": self.pick("user", "assistant", "system", "x", 5),
                "parts": [self.part() for _ in range(self.random.randrange(4))],
            },
            {"id": self.identifier(), "role": "user", "parts": self.scalar()},
            {"id": self.scalar(), "role": self.scalar()},
            self.scalar(),
        )

    def body(self) -> Any:
        body = {
            "messages": [self.message() for _ in range(self.random.randrange(5))],
            "trigger": self.pick("submit-message", "regenerate-message", "x", None),
            "clientTools": self.pick(None, [], [{"name": "locate"}], [{}], 5),
            "x": self.scalar(),
        }
        for key in list(body):
            if self.random.random() < 0.1:
                del body[key]
        text = json.dumps(body)
        return text if self.random.random() < 0.9 else self.pick(text[:-3], self.scalar(), "[]")

    def good_request(self) -> str:
        """A request that will be answered."""
        number = self.random.randrange(1000)
        words = self.pick("hello", "tool", "tool c1 c2", "approve it", "fail it", "/compact")
        body = {"messages": [user(f"u{number}", words)], "trigger": self.pick(*TRIGGERS)}
        init = {"method": "POST", "body": json.dumps(body)}
        identifier = f"q{self.random.randrange(10_000)}"
        return json.dumps({"type": KINDS[0], "id": identifier, "init": init})

    def frame(self) -> str:
        if self.random.random() < 0.1:
            return self.good_request()
        if self.sent and self.random.random() < 0.1:
            return self.random.choice(self.sent)  # repeated, out of order
        frame: dict[str, Any] = {
            "type": self.random.choice(KINDS),
            "id": self.pick(self.identifier(), f"q{self.random.randrange(10_000)}", self.scalar()),
            "init": {"method": self.pick("POST", "POST", "GET", None), "body": self.body()},
            "toolCallId": self.pick("c1", "a1", self.scalar()),
            "toolName": self.pick("locate", self.scalar()),
            "output": self.scalar(),
            "approved": self.pick(True, False, self.scalar()),
            "autoContinue": self.pick(True, False, self.scalar()),
            "messages": self.pick([self.message()], [], self.scalar()),
            "probeId": self.pick("p", self.scalar()),
            "method": self.pick("nothing", self.scalar()),
            "args": self.scalar(),
            "state": self.pick("output-available", "output-error", self.scalar()),
        }
        for key in list(frame):
            if self.random.random() < 0.15:
                frame[key] = self.scalar()
            elif self.random.random() < 0.1:
                del frame[key]
        text = json.dumps(frame)
        if self.random.random() < 0.05:
            text = text[: self.random.randrange(len(text))]
        self.sent.append(text)
        del self.sent[:-50]
        return text


class Ready(Talker):
    """Does not wait at its gate."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.gate.set()


async def test_ten_thousand_frames_break_nothing() -> None:
    host = LocalHost(name="fuzzed")
    rig = Rig(host, Ready)
    agent = await rig.start()
    attackers = [await rig.connect(f"bad{number}", "fuzzed") for number in range(3)]
    bystander = await rig.connect("good", "quiet")
    fuzz = Fuzz(20_261_130)
    for number in range(FRAMES):
        await attackers[number % 3].send(fuzz.frame())
        if number % 5 == 0:
            await asyncio.sleep(0)
        if number % 500 == 0:
            await rig.settle(0.06)
            for attacker in attackers:
                assert attacker.socket.is_open
                for text in attacker.socket.sent:
                    json.loads(text)
                attacker.forget()
    await rig.settle(0.1)
    failures = [event for event in host.logged if "message.failed" in json.dumps(event)]
    assert failures == []
    assert not agent.lane("fuzzed").is_busy
    assert agent.turns.open_turns() == []
    assert [kind for kind in bystander.kinds() if kind != "state"] == []
    assert len(agent.turns_seen) > 100, "many of the frames were good enough to be answered"
    await bystander.ask("good1", [user("g1", "still there?")])
    await rig.settle()
    assert bystander.text("good1") == "answer to still there? "
    _, messages = await rig.http("GET", "get-messages", session="fuzzed")
    assert len({message["id"] for message in messages}) == len(messages)
    assert all(not message["id"].startswith("compaction_") for message in messages)
    _, listed = await rig.http("GET", "memory", session="fuzzed")
    assert "timeline" in listed
    host.close()


async def test_a_flood_is_answered_with_a_limit_and_disturbs_nobody() -> None:
    host = LocalHost(name="flooded")
    rig = Rig(host, Talker)
    agent = await rig.start()
    flooder, other = await rig.connect("flooder"), await rig.connect("other", "quiet")
    for number in range(300):
        await flooder.ask(f"r{number}", [user(f"u{number}", "slow one")])
    refused = [frame for frame in flooder.of("use_chat_response") if frame.get("error")]
    assert len(refused) >= 190
    assert "try again later" in refused[0]["body"]
    await other.ask("o1", [user("o1", "hello")])
    await rig.until(lambda: other.done("o1"))
    assert other.text("o1") == "answer to hello "
    agent.gate.set()
    await rig.settle()
    host.close()


async def test_a_message_over_every_limit_is_refused_and_nothing_is_stored() -> None:
    host = LocalHost(name="huge")
    rig = Rig(host, Talker)
    await rig.start()
    one = await rig.connect("one")
    body = '{"messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"a","x":'
    body += "[" * 5000 + "]" * 5000
    body += '}]}],"trigger":"submit-message"}'
    init = {"method": "POST", "body": body}
    await one.send({"type": "cf_agent_use_chat_request", "id": "r1", "init": init})
    await rig.settle()
    assert one.done("r1"), "it is answered one way or the other"
    await one.ask("r2", [user("u2", "w" * 3_000_000)])
    await rig.settle()
    assert one.done("r2")[0]["outcome"] == "completed"
    shown = await rig.shown()
    assert shown[-2] == f"user: {'w' * 3_000_000}"
    host.close()
