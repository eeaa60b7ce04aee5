"""Three instances that share a bucket: one is killed during chats, one is drained."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from support.bucket_server import BucketServer
from support.cluster import Instance, local_settings
from support.packages import ensure_worker_packages
from support.worker_config import define_worker

from tests.support.chat_client import ChatClient, texts_of

TIME_DIVISOR = 10
"""Shortens the cluster's 20-second lease to 2 seconds."""

CHATS = 6
QUESTIONS = 6


@pytest.fixture
def instances(tmp_path: Path) -> Iterator[list[Instance]]:
    """Three running instances."""
    ensure_worker_packages()
    key = secrets.token_hex(32)
    with BucketServer("agents") as bucket:
        started: list[Instance] = []
        try:
            for number in range(3):
                instance = Instance(
                    define_worker(assets=False),
                    local_settings(
                        "s3://agents/test", key, bucket.endpoint, time_divisor=TIME_DIVISOR
                    ),
                    tmp_path / str(number),
                    environment=bucket.credentials,
                )
                instance.start()
                started.append(instance)
            yield started
        finally:
            for instance in started:
                instance.kill()


def balancer(instances: list[Instance]) -> Callable[[], str]:
    """A load balancer: another ready instance at each call."""
    turns = count()

    def next_address() -> str:
        ready = [instance for instance in instances if instance.process and instance.ready()]
        return ready[next(turns) % len(ready)].url if ready else instances[0].url

    return next_address


def fact(question: int) -> str:
    return f"The password of door {100 + question} is word-{question * 7}."


def hold_conversation(address: Callable[[], str], number: int, begin: int) -> ChatClient:
    client = ChatClient(address, f"person-{number}")
    for question in range(begin, begin + QUESTIONS):
        client.ask_until_answered(fact(question))
    return client


def test_nothing_is_lost_when_one_instance_dies_and_another_is_drained(
    instances: list[Instance],
) -> None:
    address = balancer(instances)
    with ThreadPoolExecutor(CHATS) as pool:
        chats = [pool.submit(hold_conversation, address, number, 0) for number in range(CHATS)]
        chats[0].result(timeout=120)
        instances[0].kill()
        clients = [chat.result(timeout=120) for chat in chats]
        more = [
            pool.submit(hold_conversation, address, number, QUESTIONS) for number in range(CHATS)
        ]
        instances[1].drain()
        clients = [chat.result(timeout=120) for chat in more]
    survivor = instances[2]
    for number, client in enumerate(clients):
        client.close()
        reader = ChatClient(lambda: survivor.url, f"person-{number}")
        messages = reader.messages()
        asked = texts_of(messages, "user")
        assert asked == [fact(question) for question in range(2 * QUESTIONS)]
        assert len(texts_of(messages, "assistant")) == 2 * QUESTIONS
        assert "word-21" in reader.ask("What is the password of door 103?")
        reader.close()
