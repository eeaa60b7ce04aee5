"""Context blocks, the frozen prompt and the session's tools, on every host."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from palimpsest.abort import Abort
from palimpsest.errors import ContextBlockError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, Part
from palimpsest.session.context import RULE, ContextBlocks, rewritten
from palimpsest.session.providers import AgentSearchProvider, PerSession, R2SkillProvider
from palimpsest.session.tools import context_tools, entry_key
from palimpsest.tools import Tool, ToolContext


class Notebook:
    """A writable provider that can be made to fail."""

    def __init__(self, content: str = "") -> None:
        self.content = content
        self.broken = False

    async def get(self) -> str:
        return self.content

    async def set(self, content: str) -> None:
        if self.broken:
            raise OSError("disk full")
        await asyncio.sleep(0)
        self.content = content


class Skills:
    """A skill provider over a dict."""

    def __init__(self, **skills: str) -> None:
        self.skills = skills

    def get(self) -> str:
        return "\n".join(f"- {key}" for key in self.skills)

    def load(self, key: str) -> str | None:
        return self.skills.get(key)

    def set(self, key: str, content: str, description: str | None = None) -> None:
        self.skills[key] = content


async def content_of(context: ContextBlocks, label: str) -> str:
    block = await context.block(label)
    assert block is not None
    return block.content


async def run(tool: Tool, **arguments: Any) -> Any:
    assert tool.execute is not None
    return await tool.execute(arguments, ToolContext(tool_call_id="call-1", abort=Abort()))


async def test_blocks_render_in_order_with_header_and_tag(host: Host) -> None:
    context = ContextBlocks(host, "")
    context.add("soul", provider="You are helpful.")
    context.add("memory", description="Learned facts", max_tokens=100)
    context.add("nothing", provider=lambda: None)
    await context.replace("memory", "likes tea")
    prompt = await context.freeze()
    assert prompt == (
        f"{RULE}\nSOUL [readonly]\n{RULE}\nYou are helpful.\n\n"
        f"{RULE}\nMEMORY (Learned facts) [3% \u2014 3/100 tokens] [writable]\n{RULE}\nlikes tea"
    )


async def test_frozen_prompt_survives_writes_and_eviction_until_refreshed(host: Host) -> None:
    def build() -> ContextBlocks:
        context = ContextBlocks(host, "s")
        context.add("memory")
        context.use_cached_prompt()
        return context

    first = build()
    frozen = await first.freeze()
    await first.replace("memory", "new fact")
    assert await first.freeze() == frozen
    assert await build().freeze() == frozen
    assert first.frozen_tokens() > 0
    assert build().frozen_tokens() == first.frozen_tokens()
    assert "new fact" in await build().refresh()
    assert "new fact" in await first.freeze()


async def test_an_empty_frozen_prompt_counts_as_frozen(host: Host) -> None:
    calls: list[int] = []

    def content() -> str | None:
        calls.append(1)
        return None

    context = ContextBlocks(host, "")
    context.add("quiet", provider=content)
    context.use_cached_prompt()
    assert await context.freeze() == ""
    assert await context.freeze() == ""
    assert len(calls) == 1


async def test_changed_block_is_reminded_of_without_changing_the_prompt(host: Host) -> None:
    context = ContextBlocks(host, "")
    context.add("memory", when_changed="remind")
    context.add("other")
    prompt = await context.freeze()
    assert await context.reminder() is None
    await context.replace("memory", "fact one")
    await context.replace("other", "unmentioned")
    reminder = await context.reminder()
    assert reminder is not None
    assert "fact one" in reminder
    assert "unmentioned" not in reminder
    assert await context.freeze() == prompt


async def test_limits_hold_for_plain_and_keyed_writes_and_for_rendering(host: Host) -> None:
    context = ContextBlocks(host, "")
    context.add("memory", max_tokens=5)
    context.add("skills", max_tokens=5, provider=Skills())
    context.add("rules", max_tokens=5, provider="one two three four five six seven eight")
    with pytest.raises(ContextBlockError, match="exceeds maxTokens: 26 > 5"):
        await context.replace("memory", "x" * 104)
    await context.replace("memory", "x" * 12)
    with pytest.raises(ContextBlockError, match="exceeds maxTokens"):
        await context.append("memory", "y" * 12)
    assert await content_of(context, "memory") == "x" * 12
    with pytest.raises(ContextBlockError, match="exceeds maxTokens"):
        await context.set_entry("skills", "k", "z" * 100)
    rules = await context.block("rules")
    assert rules is not None
    assert "more characters exceed this block's limit" in rules.render()
    with pytest.raises(ContextBlockError, match="must be positive"):
        context.add("zero", max_tokens=0)


async def test_failed_provider_write_changes_nothing(host: Host) -> None:
    notebook = Notebook("before")
    context = ContextBlocks(host, "")
    context.add("notes", provider=notebook)
    notebook.broken = True
    with pytest.raises(OSError, match="disk full"):
        await context.replace("notes", "after")
    assert await content_of(context, "notes") == "before"


async def test_concurrent_appends_are_all_kept(host: Host) -> None:
    context = ContextBlocks(host, "")
    context.add("notes", provider=Notebook())
    await asyncio.gather(*(context.append("notes", f"line {n}") for n in range(10)))
    content = await content_of(context, "notes")
    assert sorted(content.splitlines()) == sorted(f"line {n}" for n in range(10))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("soul", 'Block "soul" is readonly'),
        ("absent", 'Block "absent" not found'),
        ("skills", 'Block "skills" is a keyed provider'),
    ],
)
async def test_writes_to_other_blocks_are_refused(host: Host, label: str, message: str) -> None:
    context = ContextBlocks(host, "")
    context.add("soul", provider="fixed")
    context.add("skills", provider=Skills())
    with pytest.raises(ContextBlockError, match=message):
        await context.replace(label, "text")
    with pytest.raises(ContextBlockError, match=message):
        await context.append(label, "text")


async def test_labels_and_sessions_never_share_rows(host: Host) -> None:
    pairs = [("a", "b_c"), ("a_b", "c"), ("_system_prompt", ""), ("system_prompt", "")]
    for label, session_id in pairs:
        context = ContextBlocks(host, session_id)
        context.add(label)
        context.use_cached_prompt()
        await context.replace(label, f"{label}/{session_id}")
        await context.freeze()
    for label, session_id in pairs:
        context = ContextBlocks(host, session_id)
        context.add(label)
        block = await context.block(label)
        assert block is not None
        assert block.content == f"{label}/{session_id}"


async def test_block_added_and_removed_after_first_use(host: Host) -> None:
    context = ContextBlocks(host, "")
    await context.freeze()
    context.add("late", provider="late text")
    assert "late text" in await context.refresh()
    with pytest.raises(ContextBlockError, match="already exists"):
        context.add("late")
    assert context.remove("late")
    assert not context.remove("late")
    assert await context.refresh() == ""


async def test_tools_exist_for_the_kinds_of_blocks_there_are(host: Host) -> None:
    context = ContextBlocks(host, "")
    assert await context_tools(context) == {}
    context.add("soul", provider="fixed")
    assert await context_tools(context) == {}
    context.add("memory")
    assert list(await context_tools(context)) == ["set_context"]
    context.add("skills", provider=Skills(a="A"))
    context.add("docs", provider=AgentSearchProvider(host))
    tools = await context_tools(context)
    assert list(tools) == ["set_context", "load_context", "unload_context", "search_context"]
    schema = tools["set_context"].parameters
    assert schema["properties"]["label"]["enum"] == ["memory", "skills", "docs"]
    assert schema["required"] == ["label", "content"]
    assert "metadata" in schema["properties"]
    assert tools["load_context"].parameters["properties"]["label"]["enum"] == ["skills"]
    assert tools["search_context"].parameters["required"] == ["label", "query"]


async def test_set_context_results(host: Host) -> None:
    context = ContextBlocks(host, "")
    context.add("memory", max_tokens=100)
    context.add("free")
    context.add("docs", provider=AgentSearchProvider(host))
    tool = (await context_tools(context))["set_context"]
    written = await run(tool, label="memory", content="abcd" * 4)
    assert written == "Written to memory. Usage: 4% (4/100 tokens)"
    more = await run(tool, label="memory", content="efgh", action="append")
    assert more == "Written to memory. Usage: 6% (6/100 tokens)"
    assert await run(tool, label="free", content="abcd") == "Written to free. Usage: 2 tokens"
    keyed = await run(tool, label="docs", content="text", metadata={"title": "Deploy notes"})
    assert keyed == 'Indexed "deploy-notes" in docs.'
    assert await run(tool, label="x", content="y") == 'Error: block "x" not found'
    assert (await run(tool, label="memory", content="z" * 999)).startswith("Error: Block")
    assert await run(tool, label="memory", content=5) == "Error: content must be text"
    assert "append" in await run(tool, label="memory", content="z", action="prepend")


async def test_skills_are_loaded_and_unloaded_and_stay_so_after_eviction(host: Host) -> None:
    history: list[Message] = []

    async def rewrite(change: Any) -> None:
        history[:] = [rewritten(message, change) or message for message in history]

    def build() -> ContextBlocks:
        context = ContextBlocks(host, "s", rewrite_history=rewrite)
        context.add("skills", provider=Skills(pdf="How to read PDF files."))
        return context

    def call(identifier: str) -> Part:
        return {
            "type": "tool-load_context",
            "toolCallId": identifier,
            "state": "output-available",
            "input": {"label": "skills", "key": "pdf"},
            "output": "How to read PDF files.",
        }

    tools = await context_tools(build())
    loaded = await run(tools["load_context"], label="skills", key="pdf")
    assert loaded == "How to read PDF files."
    assert await run(tools["load_context"], label="skills", key="no") == "Not found: no"
    wrong = await run(tools["load_context"], label="memory", key="pdf")
    assert wrong == 'Error: "memory" is not a skill block. Skill blocks: skills'
    history.append({"id": "1", "role": "assistant", "parts": [call("a"), call("b")]})

    assert build().loaded_skill_keys() == {"skills:pdf"}
    tools = await context_tools(build())
    assert "skills:pdf" in tools["unload_context"].description
    unloaded = await run(tools["unload_context"], label="skills", key="pdf")
    assert unloaded == 'Unloaded "pdf" from skills. Context reclaimed.'
    again = await run(tools["unload_context"], label="skills", key="pdf")
    assert again == 'Skill "pdf" is not currently loaded in "skills".'

    await build().freeze()  # another instance finishes what was begun
    outputs = [part["output"] for part in history[0]["parts"]]
    assert outputs == ["[skill unloaded: pdf]"] * 2
    assert build().loaded_skill_keys() == set()


async def test_search_block_finds_words_in_any_script_and_treats_queries_as_data(
    host: Host,
) -> None:
    context = ContextBlocks(host, "")
    context.add("docs", provider=AgentSearchProvider(host))
    await context.set_entry("docs", "a", "The deployment happens on Friday evening.")
    await context.set_entry("docs", "b", "部署方案已经确认")
    await context.set_entry("docs", "c", "Tickets for C++ and gpt-4o")
    tool = (await context_tools(context))["search_context"]
    friday = await run(tool, label="docs", query="when is the deployment on friday?")
    assert friday.startswith("[a]\n")
    assert await run(tool, label="docs", query="部署") == "[b]\n部署方案已经确认"
    for query in ['"', "NOT", "a AND", "foo:bar", "*", "(", "gpt-4o", "don't", "\0"]:
        assert not (await run(tool, label="docs", query=query)).startswith("Error")
    assert await run(tool, label="docs", query="zebra") == "No results found."
    wrong = await run(tool, label="memory", query="x")
    assert wrong == 'Error: "memory" is not searchable. Searchable blocks: docs'
    block = await context.block("docs")
    assert block is not None
    assert block.content == "3 entries indexed."
    assert block.tag == "[searchable]"


async def test_search_entry_is_replaced_and_deleted_from_the_index(host: Host) -> None:
    provider = AgentSearchProvider(host, label="docs")
    provider.set("k", "old words")
    provider.set("k", "new terms")
    assert provider.search("old") is None
    assert provider.search("terms") == "[k]\nnew terms"
    assert provider.delete("k")
    assert not provider.delete("k")
    assert provider.search("terms") is None
    assert provider.get() is None


async def test_provider_made_for_each_session(host: Host) -> None:
    provider = PerSession(lambda session_id: Notebook(f"notes of {session_id}"))
    for session_id in ("one", "two"):
        context = ContextBlocks(host, session_id)
        context.add("notes", provider=provider)
        block = await context.block("notes")
        assert block is not None
        assert block.content == f"notes of {session_id}"


@pytest.mark.parametrize(
    ("title", "content", "expected"),
    [
        ("Deploy notes", "x", "deploy-notes"),
        ("  Deploy notes ", "y", "deploy-notes"),
        ("42", "x", "42"),
    ],
)
async def test_plain_title_is_its_own_key(title: str, content: str, expected: str) -> None:
    assert entry_key(title, content) == expected


async def test_different_titles_and_contents_never_share_a_key() -> None:
    titles = ["C++", "C#", "c", "用户 a", "a", "Å", "a b", "a-b", "x" * 61, "x" * 60, "x" * 62]
    keys = [entry_key(title, "same") for title in titles]
    keys += [entry_key(None, "same"), entry_key("", "other"), entry_key(None, "用户")]
    assert len(set(keys)) == len(keys)


class Bucket:
    """What the host's R2 binding offers, kept in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}

    async def get(self, key: str) -> bytes | None:
        return self.objects[key][0] if key in self.objects else None

    async def put(
        self, key: str, content: bytes | str, *, metadata: Mapping[str, str] | None = None
    ) -> None:
        data = content.encode() if isinstance(content, str) else content
        self.objects[key] = (data, dict(metadata or {}))

    async def list(self, prefix: str = "") -> list[dict[str, Any]]:
        return [
            {"key": key, "metadata": self.objects[key][1]}
            for key in sorted(self.objects)
            if key.startswith(prefix)
        ]


async def test_r2_skills_are_listed_and_limited_to_allowed_keys() -> None:
    bucket = Bucket()
    writer = R2SkillProvider(bucket, prefix="skills/")
    await writer.set("pdf", "Read it.", "PDF files")
    await writer.set("csv", "Split it.")
    assert await writer.get() == "- csv\n- pdf: PDF files"
    assert await writer.load("pdf") == "Read it."
    limited = R2SkillProvider(bucket, prefix="skills/", keys=["csv"])
    assert await limited.get() == "- csv"
    assert await limited.load("pdf") is None
    with pytest.raises(PermissionError):
        await limited.set("pdf", "overwritten")
