"""The Worker of the browser tests: the real chat agent with a model that does as it is told.

The model reads what to do from the last user message, so that a test needs nothing but the page:
``slow N`` streams N words with a pause after each, ``approve`` calls a tool that needs approval,
``fail`` breaks off, ``refuse`` fails before a word, ``tool`` calls a tool, ``markdown`` answers
with every kind of block.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator

from palimpsest.chat.agent import ChatAgent
from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.policy import BudgetRatioPolicy
from palimpsest.errors import ModelUnavailableError
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import Message, is_tool_part, text_of
from palimpsest.models.interface import Finish, ModelEvent, ModelRequest, TextDelta, ToolCall
from palimpsest.session.manager import SessionManager
from palimpsest.tools.decorator import tool

INPUT_BUDGET = 1_500
PAUSE_SECONDS = 0.04

MARKDOWN = """\
## The plan

1. Read the **ledger** in [the archive](https://example.com/archive)
2. Compare it with the *tide table*

| Ship | Tide | At |
|:--|--:|:--:|
| Alba | 212 | 06:40 |
| Nordwind | 187 | 11:05 |

```python
def tide(at: float) -> int:
    \"\"\"Centimetres over chart datum.\"\"\"
    return round(212 * math.sin(at / 6.2))  # half a day
```

> The sea keeps its own accounts.

The height follows $h(t) = a \\sin(\\omega t)$. A cost of $5 and $6 stays money.

<img src=x onerror="document.title='broken into'"> [a trap](javascript:document.title='broken into')
![a picture elsewhere](https://example.com/pixel.png)
"""


class ObedientModel:
    """Does what the last user message says."""

    name = "obedient"
    context_window = 32_000
    max_output_tokens = 4_000
    max_input_tokens = INPUT_BUDGET

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer, word by word."""
        order = _last_user_text(request)
        answered = _tool_states(request.messages[-1])
        if not answered and order.startswith(("approve", "tool")):
            name = "send_letter" if order.startswith("approve") else "count_words"
            argument = "reader" if name == "send_letter" else "text"
            yield ToolCall(f"call-{len(request.messages)}", name, {argument: order})
            yield Finish("tool-calls")
            return
        if order.startswith("refuse"):
            raise ModelUnavailableError("The model is resting. Ask it again in a moment.")
        pause = PAUSE_SECONDS if order.startswith(("slow", "fail")) else 0.0
        for word in _words(order, answered):
            yield TextDelta(word)
            await asyncio.sleep(pause)
        if order.startswith("fail"):
            raise ModelUnavailableError("The model is resting. Ask it again in a moment.")
        yield Finish("stop")


def _last_user_text(request: ModelRequest) -> str:
    for message in reversed(request.messages):
        if message.get("role") == "user":
            return text_of(message)
    return ""


def _tool_states(message: Message) -> list[str]:
    if message.get("role") != "assistant":
        return []
    return [str(part.get("state")) for part in message["parts"] if is_tool_part(part)]


def _words(order: str, answered: list[str]) -> Iterator[str]:
    slow = re.match(r"slow (\d+)", order)
    if slow:
        for number in range(1, int(slow[1]) + 1):
            yield f"word{number} "
    elif order.startswith("markdown"):
        yield from re.findall(r"\S+\s*", MARKDOWN)
    elif answered:
        done = "was used" if answered[-1] == "output-available" else "was not used"
        yield from (f"The tool {done}.",)
    elif order.startswith("fail"):
        yield from ("Half ", "of ", "an ", "answer ")
    else:
        yield from re.findall(r"\S+\s*", f"You said: {order}")


@durable_object
class Assistant(ChatAgent):
    """The example agent, small enough that a test reaches its limits."""

    def model(self) -> ObedientModel:
        """The model of the tests."""
        return ObedientModel()

    def configure_sessions(self, sessions: SessionManager) -> None:
        """A memory block, and compaction of what exceeds the small budget."""
        sessions.with_context("memory", description="Facts worth keeping", max_tokens=400)
        sessions.on_compaction(BudgetRatioPolicy(ExtractiveSummarizer(), INPUT_BUDGET))

    @tool(needs_approval=True)
    async def send_letter(self, reader: str) -> str:
        """Send a letter."""
        return f"sent to {reader}"

    @tool
    async def count_words(self, text: str) -> int:
        """Count the words of a text."""
        return len(text.split())


Default = worker_entrypoint(cors=True)
