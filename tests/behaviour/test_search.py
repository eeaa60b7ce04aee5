"""Search over messages, on both hosts: what is found, in what order, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import InvalidSearchError, SearchError
from palimpsest.messages import text_message
from palimpsest.search.search import SearchResult, search_messages
from palimpsest.session.session import Session
from palimpsest.store.search_index import SearchIndex

DAY = 86_400_000
START = 1_700_000_000_000


def filled(host: Any, *texts: str, session: str = "s") -> SearchIndex:
    """An index of one session whose messages are ``m1``, ``m2``, ..., a minute apart."""
    index = SearchIndex(host.sql)
    for row, text in enumerate(texts, start=1):
        role = "user" if row % 2 else "assistant"
        message = text_message(f"m{row}", role, text)
        index.add(session, row, message, START + row * 60_000)
    return index


def search(index: SearchIndex, query: str, **options: Any) -> list[SearchResult]:
    options.setdefault("session_id", "s")
    return search_messages(index, query, **options)


def ids(index: SearchIndex, query: str, **options: Any) -> list[str]:
    return [result.id for result in search(index, query, **options)]


IDENTIFIERS = {
    "gpt": "we moved the summaries to gpt-4o last week",
    "cpp": "the parser is written in C++ for speed",
    "c": "the kernel module is plain C code",
    "key": "the cache key is foo:bar in every region",
    "flag": "run it with --error-on-warnings in the pipeline",
    "clause": "clause 38.101 covers the base station",
    "path": "the log is in /var/log/palimpsest/error.log now",
    "mail": "write to ada.lovelace@example.org about it",
    "contraction": "I don't like that colour",
    "agents": "a multi-agent design needs a supervisor",
    "camel": "call getRecentHistory before the model",
    "snake": "set max_tokens to a thousand",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("gpt-4o", "gpt"),
        ("4o", "gpt"),
        ("C++", "cpp"),
        ("c++", "cpp"),
        ("foo:bar", "key"),
        ("bar", "key"),
        ("--error-on-warnings", "flag"),
        ("warnings", "flag"),
        ("38.101", "clause"),
        ("/var/log/palimpsest/error.log", "path"),
        ("error.log", "path"),
        ("palimpsest", "path"),
        ("ada.lovelace@example.org", "mail"),
        ("lovelace", "mail"),
        ("example.org", "mail"),
        ("don't", "contraction"),
        ("multi-agent", "agents"),
        ("supervisor", "agents"),
        ("getRecentHistory", "camel"),
        ("history", "camel"),
        ("max_tokens", "snake"),
        ('"gpt-4o"', "gpt"),
        ('"C++"', "cpp"),
        ('"--error-on-warnings"', "flag"),
    ],
)
async def test_identifiers_are_found_whole_and_in_parts(
    host: Any, query: str, expected: str
) -> None:
    index = SearchIndex(host.sql)
    for row, (identifier, text) in enumerate(IDENTIFIERS.items(), start=1):
        index.add("s", row, text_message(identifier, "user", text), START)
    assert ids(index, query)[0] == expected


async def test_a_question_finds_the_turn_that_answers_it(host: Any) -> None:
    index = filled(
        host,
        "When will the new version be deployed?",
        "On Friday, right after the freeze ends.",
        "Lovely weather today.",
        "Yes, very sunny.",
        "Who brings the cake?",
        "Dana does, she baked it already.",
    )
    assert ids(index, "When is the deployment?")[:2] == ["m2", "m1"]
    assert ids(index, "who has the cake")[:2] == ["m6", "m5"]


async def test_words_are_alternatives_and_rare_words_count_more(host: Any) -> None:
    index = filled(
        host,
        "the meeting is about lunch",
        "the meeting is about the quarterly budget",
        "the meeting is about holidays",
        "nothing of note",
    )
    assert ids(index, "meeting budget")[0] == "m2"
    assert "m4" not in ids(index, "budget", limit=1)


async def test_stemming_irregular_forms_synonyms_and_categories(host: Any) -> None:
    index = filled(
        host,
        "She bought a camera in Lisbon.",
        "x",
        "y",
        "z",
        "He was swimming in the lake.",
        "x",
        "y",
        "z",
        "I practise the violin every evening.",
    )
    assert ids(index, "where did she buy it", limit=1) == ["m1"]
    assert ids(index, "swims", limit=1) == ["m5"]
    assert ids(index, "which instrument", limit=1) == ["m9"]


async def test_a_quoted_phrase_is_exact(host: Any) -> None:
    index = filled(host, "the red blue house", "the blue red house", "red and blue", "house")
    assert ids(index, '"red blue"') == ["m1"]
    assert sorted(ids(index, '"red" "house"')) == ["m1", "m2"]
    assert ids(index, '"red green"') == []
    assert ids(index, "red green")[0] in ("m1", "m2", "m3")


@pytest.mark.parametrize("options", [{}, {"limit": 2}, {"role": "user"}, {"session_id": None}])
async def test_a_plain_phrase_is_found_as_any_other(host: Any, options: dict[str, Any]) -> None:
    index = filled(host, *(f"a copper lantern, number {row}" for row in range(9)), "copper")
    index.add("t", 1, text_message("t1", "user", "the Copper-Lantern"), START)
    for _ in range(2):  # the second time from the session's first key
        plain = search(index, '"copper lantern"', **options)
        assert plain == search(index, "“copper lantern”", **options)
        assert [result.marked() for result in plain] == [
            result.marked() for result in search(index, "“copper lantern”", **options)
        ]
        assert len(plain) == min(
            {"role": 5, "session_id": 10}.get(next(iter(options), ""), 9), options.get("limit", 20)
        )


async def test_a_question_that_was_asked_word_for_word_comes_first(host: Any) -> None:
    texts = [f"Ann painted the fence {row} and the door" for row in range(30)]
    index = filled(host, *texts, "And who painted the door? Nobody knows.", *texts)
    [first, second, *_] = search(index, "Who painted the door?")
    assert first.id == "m31"
    assert first.score == second.score + 1.0
    assert ids(index, "Who painted the door?", limit=1) == ["m31"]
    every = ids(index, "painted the fence 3 and the door?", limit=2)
    assert every == ["m35", "m4"]


async def test_a_quoted_phrase_among_words_does_not_hide_other_answers(host: Any) -> None:
    index = filled(host, "I read 'Dune Messiah' twice", "It was about power and regret", "ok")
    assert ids(index, 'what was "Dune Messiah" about')[:2] in (["m1", "m2"], ["m2", "m1"])


async def test_a_prefix_only_when_asked(host: Any) -> None:
    index = filled(host, "the deployment", "the depot", "a deposit", "none")
    assert {result.id for result in search(index, "depo*") if result.highlights} == {"m2", "m3"}
    found = {result.id for result in search(index, "dep*") if result.highlights}
    assert found == {"m1", "m2", "m3"}
    assert ids(index, "dep") == []


async def test_the_whole_query_word_for_word_comes_first(host: Any) -> None:
    index = filled(
        host,
        "release the notes of the meeting to the team",
        "notes notes notes release release",
        "please release the notes",
    )
    assert ids(index, "release the notes")[0] in ("m1", "m3")
    assert ids(index, "release the notes", limit=2)[1] in ("m1", "m3")


@pytest.mark.parametrize(
    "query",
    [
        "a AND", "OR hello", "NOT", "NEAR", "NEAR(a b)", "*", '"unclosed', "(", ")", '""', "a*b*",
        "text: hello", "-hello", "^hello", "+hello", "{text}: x", "hello'; drop table x; --",
        "%", "_", "\\", "hello\x00world", "\ud800", "\udfff hello", "' OR 1=1", '"a" "', "“",
    ],
)  # fmt: skip
async def test_no_query_text_is_syntax(host: Any, query: str) -> None:
    index = filled(host, "hello world", "a and b")
    for result in search(index, query):
        assert result.id in ("m1", "m2")
    if "hello" in query:
        assert ids(index, query)[0] == "m1"


async def test_empty_and_very_long_queries(host: Any) -> None:
    index = filled(host, "hello world", "the needle", "other")
    for query in ("", "   ", "\n\t", "?!", "\x00"):
        assert search(index, query) == []
    assert ids(index, "needle " + "straw " * 20_000)[0] == "m2"
    assert ids(index, " ".join(f"word{number}" for number in range(5_000)) + " needle") == []
    assert search(index, "x" * 1_000_000) == []


async def test_only_stop_words(host: Any) -> None:
    index = filled(host, "to be or not to be", "something else", "nothing of it")
    assert ids(index, "to be or not to be")[0] == "m1"
    assert ids(index, "who are you") == []
    assert ids(index, "something of it")[0] in ("m2", "m3")


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.5, "10", None, True])
async def test_a_limit_without_meaning_is_refused(host: Any, limit: Any) -> None:
    index = filled(host, "hello")
    with pytest.raises(InvalidSearchError):
        search(index, "hello", limit=limit)


@pytest.mark.parametrize(
    "options",
    [
        {"query": 5},
        {"query": None},
        {"query": b"x"},
        {"query": "x", "session_id": 7},
        {"query": "x", "role": 3},
        {"query": "x", "role": ["user", 3]},
        {"query": "x", "since": "yesterday"},
        {"query": "x", "until": 2**60},
        {"query": "x", "session_id": None, "path_rows": [1]},
    ],
)
async def test_other_parameters_without_meaning_are_refused(
    host: Any, options: dict[str, Any]
) -> None:
    index = filled(host, "hello")
    options = {"session_id": "s", **options}
    with pytest.raises(InvalidSearchError):
        search_messages(index, options.pop("query"), **options)


async def test_a_broken_index_is_an_error_and_not_an_empty_result(host: Any) -> None:
    index = filled(host, "hello")
    host.sql.execute("drop table assistant_fts")
    with pytest.raises(SearchError):
        search(index, "hello")
    with pytest.raises(SearchError):
        search(index, '"hello"')


async def test_filters(host: Any) -> None:
    index = filled(host, *(f"apple number {row}" for row in range(1, 41)))
    assert {r.role for r in search(index, "apple", role="user")} == {"user"}
    assert len(ids(index, "apple", role=["user", "assistant"], limit=100)) == 40
    assert ids(index, "apple", role=[]) == []
    assert ids(index, "apple", role="system") == []
    since = search(index, "apple", since=START + 38 * 60_000, limit=100)
    assert sorted(r.id for r in since) == ["m38", "m39", "m40"]
    until = search(index, "apple", until=START + 3 * 60_000, limit=100)
    assert sorted(r.id for r in until) == ["m1", "m2"]
    both = search(index, '"apple number"', since=START + 5 * 60_000, until=START + 7 * 60_000)
    assert sorted(r.id for r in both) == ["m5", "m6"]
    assert all(r.created_at < START + 3 * 60_000 for r in until)


async def test_filters_reach_past_the_first_candidates(host: Any) -> None:
    index = SearchIndex(host.sql)
    for row in range(1, 601):
        role = "system" if row == 7 else "user"
        index.add("s", row, text_message(f"m{row}", role, f"pear {row}"), START + row)
    assert ids(index, "pear", role="system") == ["m7"]


async def test_sessions_are_apart_and_all_can_be_searched(host: Any) -> None:
    index = filled(host, "the secret is swordfish", session="a")
    for row, text in enumerate(("swordfish again", "other"), start=1):
        index.add("b", row, text_message(f"b{row}", "user", text), START)
    assert ids(index, "swordfish", session_id="a") == ["m1"]
    assert ids(index, "swordfish", session_id="nobody") == []
    everywhere = search(index, "swordfish", session_id=None)
    assert {(r.session_id, r.id) for r in everywhere if r.highlights} == {("a", "m1"), ("b", "b1")}
    assert {r.session_id for r in search(index, '"swordfish"', session_id=None)} == {"a", "b"}
    index.clear("a")
    assert {r.session_id for r in search(index, "swordfish", session_id=None)} == {"b"}
    assert ids(index, "swordfish", session_id="a") == []


async def test_a_branch(host: Any) -> None:
    index = filled(host, "red fox", "answer one", "answer two about a red fox", "end")
    assert set(ids(index, "fox", path_rows=[1, 3, 4])) == {"m1", "m3", "m4"}
    assert ids(index, '"red fox"', path_rows=[1, 2]) == ["m1"]
    assert ids(index, "fox", path_rows=[]) == []
    # On the branch m4 follows m1 directly, so it is m1's neighbour there.
    assert ids(index, "fox", path_rows=[1, 4]) == ["m1", "m4"]


async def test_tools_files_and_metadata_are_found_but_never_media(host: Any) -> None:
    index = SearchIndex(host.sql)
    data = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 40
    parts: list[dict[str, Any]] = [
        {
            "type": "tool-weather", "toolCallId": "1", "state": "output-available",
            "input": {"city": "Reykjavik"}, "output": {"sky": ["overcast", "drizzle"]},
        },
        {
            "type": "dynamic-tool", "toolName": "lookup", "toolCallId": "2",
            "state": "output-error", "input": {}, "errorText": "quota exhausted",
        },
        {
            "type": "file", "mediaType": "image/png", "filename": "holiday-beach.png",
            "url": f"data:image/png;base64,{data}",
        },
        {"type": "data-note", "data": {"label": "kumquat"}},
        {"type": "reasoning", "text": "privately considered tangerines"},
    ]  # fmt: skip
    message = {"id": "m1", "role": "assistant", "parts": parts, "metadata": {"caption": "a puffin"}}
    index.add("s", 1, message, START)
    for query in (
        "weather", "Reykjavik", "overcast", "lookup", "quota", "beach", "kumquat", "puffin",
    ):  # fmt: skip
        assert ids(index, query) == ["m1"], query
    assert ids(index, "tangerines") == []
    assert ids(index, data[:60]) == []
    assert ids(index, "base64") == []
    stored = host.sql.execute("select text || tools || about from assistant_search")[0][0]
    assert data[:60] not in stored
    result = search(index, "overcast")[0]
    assert "overcast" in result.content
    assert "overcast" in result.marked()


async def test_reasoning_when_asked_for(host: Any) -> None:
    index = SearchIndex(host.sql, reasoning=True)
    part = {"type": "reasoning", "text": "privately considered tangerines"}
    index.add("s", 1, {"id": "m1", "role": "assistant", "parts": [part]}, START)
    assert ids(index, "tangerines") == ["m1"]


async def test_update_remove_and_clear_leave_nothing_behind(host: Any) -> None:
    index = filled(host, "alpha 部署方案", "beta", "gamma")
    index.update("s", 1, text_message("m1", "user", "delta 修正"), START)
    assert ids(index, '"alpha"') == []
    assert ids(index, '"部署"') == []
    assert ids(index, '"delta"') == ["m1"]
    assert ids(index, "修正")[0] == "m1"
    index.remove("s", [1, 99])
    assert ids(index, '"delta"') == []
    assert ids(index, "修正") == []
    index.clear("s")
    assert ids(index, "beta") == []
    for table in ("assistant_search", "assistant_search_sessions", "assistant_fts_grams"):
        assert host.sql.execute(f"select count(*) from {table}") == [[0]]


async def test_a_very_long_message_is_found_to_its_end(host: Any) -> None:
    index = SearchIndex(host.sql)
    long = "start " + "filler words of no interest " * 120_000 + "pomegranate"
    index.add("s", 1, text_message("m1", "user", long), START)
    index.add("s", 2, text_message("m2", "user", "short"), START)
    assert ids(index, "pomegranate")[0] == "m1"
    assert ids(index, '"pomegranate"') == ["m1"]
    assert len(ids(index, "filler")) == len(set(ids(index, "filler")))
    index.update("s", 1, text_message("m1", "user", "now short"), START)
    assert ids(index, '"pomegranate"') == []
    assert host.sql.execute("select count(*) from assistant_search") == [[2]]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("明天我们讨论部署方案，请带上文档。", ["部署", "方案", "部署方案", "署", "文档", "讨论"]),
        ("サンドボックスの修正を確認しました。", ["修正", "確認", "サンド", "ボックス", "の"]),
        ("내일 배포를 논의합시다", ["배포", "논의", "내일", "배"]),
        ("เราจะประชุมวันพรุ่งนี้", ["ประชุม", "วัน", "พรุ่งนี้"]),
        ("部署itgc方案v2", ["itgc", "部署", "v2", "部署itgc"]),
        ("ភាសាខ្មែរ", ["ភាសា", "ខ្មែរ"]),
        ("Großer Fuß, café, naïve", ["fuß", "cafe", "naive", "CAFÉ"]),
        ("Привет, как дела", ["привет", "ДЕЛА"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("हिन्दी में लिखा", ["हिन्दी", "लिखा"]),
        ("party tonight 🎉 with 👩‍🚀", ["🎉", "👩"]),
        ("ｆｕｌｌｗｉｄｔｈ　テスト", ["テスト"]),
        ("ﾃｽﾄ半角", ["テスト", "半角"]),
    ],
)
async def test_other_scripts(host: Any, text: str, queries: list[str]) -> None:
    index = filled(host, "unrelated words", text, "more unrelated words")
    for query in queries:
        found = search(index, query)
        assert found, query
        assert found[0].id == "m2", query


async def test_ascii_messages_pay_for_one_index_only(host: Any) -> None:
    filled(host, "plain words", "naïve café")
    assert host.sql.execute("select count(*) from assistant_fts_grams") == [[0]]


async def test_snippets_show_the_place_and_are_safe_for_html(host: Any) -> None:
    padding = "padding words here " * 60
    long = f"<b>start</b> {padding} the <i>deployed</i> & done {padding}"
    index = filled(host, long, "short & deploy <now>")
    results = {result.id: result for result in search(index, "deploy")}
    first = results["m1"]
    assert len(first.snippet) <= 260
    assert first.snippet.startswith("…")
    assert first.snippet.endswith("…")
    assert [first.snippet[start:end] for start, end in first.highlights] == ["deployed"]
    marked = first.marked()
    assert "&lt;i&gt;<mark>deployed</mark>&lt;/i&gt; &amp; done" in marked
    assert results["m2"].marked("[", "]") == "short &amp; [deploy] &lt;now&gt;"
    assert results["m1"].content == long


async def test_highlights_of_phrases_and_other_scripts(host: Any) -> None:
    index = filled(host, "we use gpt-4o here", "明天部署方案", "Café crème")
    assert search(index, "gpt-4o")[0].marked() == "we use <mark>gpt-4o</mark> here"
    assert search(index, "部署")[0].marked() == "明天<mark>部署</mark>方案"
    assert search(index, "cafe")[0].marked() == "<mark>Café</mark> crème"


async def test_speaker_and_time_named_in_the_query(host: Any) -> None:
    index = SearchIndex(host.sql)
    lines = [
        ("Ana", "I adopted a kitten", "2023-05-02T10:00:00Z"),
        ("Ben", "I adopted a kitten", "2023-05-03T10:00:00Z"),
        ("Ana", "I adopted a kitten", "2023-08-02T10:00:00Z"),
        ("Ben", "I adopted a kitten", "2023-08-03T10:00:00Z"),
    ]
    for row, (speaker, text, time) in enumerate(lines, start=1):
        message = text_message(f"m{row}", "user", text)
        message["metadata"] = {"speaker": speaker, "createdAt": time}
        index.add("s", row, message, START)
    assert set(ids(index, "what did Ana adopt", limit=2)) == {"m1", "m3"}
    assert set(ids(index, "kitten adopted in August 2023", limit=2)) == {"m3", "m4"}
    assert ids(index, "what did Ben adopt in May", limit=1) == ["m2"]
    prefixed = SearchIndex(host.sql)
    for row, (speaker, text, _) in enumerate(lines[:2], start=1):
        prefixed.add("p", row, text_message(f"p{row}", "user", f"{speaker}: {text}"), START)
    assert ids(prefixed, "what did Ben adopt", session_id="p", limit=1) == ["p2"]


async def test_what_was_said_then_is_found_without_its_words(host: Any) -> None:
    index = SearchIndex(host.sql)
    now = START + 40 * DAY
    lines = [("The kiln is broken.", 10), ("Bread rose twice.", 38.2), ("Ducks on the pond.", 38.9)]
    for row, (text, days) in enumerate(lines, start=1):
        index.add("s", row, text_message(f"m{row}", "user", text), START + int(days * DAY))
    assert set(ids(index, "What went on yesterday?", clock=lambda: now)) == {"m2", "m3"}
    assert ids(index, "What went on?", clock=lambda: now) == []
    everywhere = ids(index, "What went on yesterday?", clock=lambda: now, session_id=None)
    assert set(everywhere) == {"m2", "m3"}


async def test_transcripts_tell_speaker_and_time_in_their_text(host: Any) -> None:
    index = filled(
        host,
        "[2 May 2023] Ana: I adopted a kitten",
        "[3 May 2023] Ben: I adopted a kitten",
        "[2 August 2023] Ana: I adopted a kitten",
        "[3 August 2023] Ben: I adopted a kitten",
    )
    assert set(ids(index, "what did Ana adopt", limit=2)) == {"m1", "m3"}
    assert ids(index, "what did Ben adopt in August", limit=1) == ["m4"]


async def test_a_formal_question_finds_plain_talk(host: Any) -> None:
    lines = ["The roof leaks again."] * 6
    lines[2] = "My daughter got a telescope from her uncle."
    index = filled(host, *lines)
    assert ids(index, "Which present did the child receive?", limit=1) == ["m3"]


async def test_a_rare_word_stays_rare_though_its_synonyms_are_common(host: Any) -> None:
    lines = [f"we talked about the price of part {number}" for number in range(30)]
    lines[4] = "the expense of the harbour"
    lines[20] = "the harbour at night"
    index = filled(host, *lines)
    found = ids(index, "harbour expense", limit=31)
    assert found[0] == "m5"
    assert found.index("m21") < found.index("m15")
    assert ids(index, "expense", limit=1) == ["m5"]


async def test_yesterday_counts_from_now(host: Any) -> None:
    index = SearchIndex(host.sql)
    for row in range(1, 11):
        message = text_message(f"m{row}", "user", "we decided about the colour")
        index.add("s", row, message, START + row * DAY)
    now = START + 6 * DAY
    assert ids(index, "what did we decide yesterday?", clock=lambda: now, limit=1) == ["m5"]


async def test_results_do_not_depend_on_the_order_of_equal_messages(host: Any) -> None:
    index = filled(host, *(["same words"] * 30))
    first = ids(index, "same words", limit=30)
    assert first == ids(index, "same words", limit=30)
    assert len(set(first)) == 30


async def test_summaries_of_overlays_are_not_indexed(host: Any) -> None:
    index = SearchIndex(host.sql)
    index.add("s", 1, text_message("compaction_1", "user", "summary of apples"), START)
    assert ids(index, "apples") == []


async def test_whose_name_it_is_without_speakers(host: Any) -> None:
    texts: list[str] = []
    for day in range(8):
        texts += [f"Hello Mira, day {day}. I went sailing.", "Good to hear. I went sailing too."]
    index = filled(host, *texts)
    found = search(index, "When did Mira go sailing?", limit=6)
    assert {result.role for result in found} == {"assistant"}


async def test_a_single_word_finds_the_messages_that_hold_it_first(host: Any) -> None:
    index = filled(
        host,
        "What about the pelican and the heron, what do you think?",
        "I saw one last Friday, my first of three.",
        "Do you mean the pelican?",
        "I went there with my friends.",
        "A pelican?",
    )
    assert set(ids(index, "pelican", limit=3)) == {"m1", "m3", "m5"}
    assert len(ids(index, "pelican")) == 5


async def test_a_word_of_an_unspaced_script_does_not_reach_over_a_space(host: Any) -> None:
    index = filled(host, "화가 난 사람", "가난한 사람", "部署。方案")
    assert ids(index, '"가난"') == ["m2"]
    assert ids(index, '"署方"') == []
    assert ids(index, '"화가"') == ["m1"]


async def test_results_may_together_be_larger_than_one_value(host: Any) -> None:
    index = SearchIndex(host.sql)
    for row in range(1, 8):
        text = f"walrus number {row} " + "and so on " * 80_000
        index.add("s", row, text_message(f"m{row}", "user", text), START)
    for query in ('"walrus number"', "walrus"):
        found = search(index, query)
        assert {result.id for result in found} == {f"m{row}" for row in range(1, 8)}
        assert all(len(result.content) > 800_000 for result in found)


async def test_a_search_may_be_limited_to_one_branch(host: Any) -> None:
    session = Session.create(host)
    for identifier, text in (("a", "a zebra came"), ("b", "nothing"), ("c", "a zebra left")):
        await session.append_message(text_message(identifier, "user", text))
    await session.append_message(text_message("d", "user", "a zebra elsewhere"), "a")
    for leaf, here, elsewhere in (("c", {"a", "c"}, {"d"}), ("d", {"a", "d"}, {"b", "c"})):
        found = {result.id for result in await session.search("zebra", leaf_id=leaf)}
        assert here <= found
        assert not elsewhere & found
    await session.delete_messages(["a"])
    assert {result.id for result in await session.search("zebra", leaf_id="d")} == {"d"}
    assert await session.search("zebra", leaf_id="unknown") == []
