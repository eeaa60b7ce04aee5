"""The page's content security policy, and that its source makes no HTML out of text."""

from __future__ import annotations

import re
from pathlib import Path

WEB = Path(__file__).parents[2] / "src" / "web"


def policy() -> dict[str, list[str]]:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert found is not None
    directives = [part.split() for part in found[1].split(";") if part.strip()]
    return {name: sources for name, *sources in directives}


def test_only_the_pages_own_files_are_loaded_and_run() -> None:
    directives = policy()
    assert directives["default-src"] == ["'none'"]
    assert directives["script-src"] == ["'self'"]
    assert directives["style-src"] == ["'self'"]
    assert directives["base-uri"] == ["'none'"]
    assert directives["form-action"] == ["'none'"]
    for sources in directives.values():
        for source in sources:
            assert "unsafe" not in source
            assert source in {"'none'", "'self'", "data:", "blob:", "ws:", "wss:"}
    for name in ("img-src", "media-src"):
        assert not {"http:", "https:", "*"} & set(directives[name])


def test_no_other_site_may_frame_the_page() -> None:
    # A meta tag cannot say this; Cloudflare and wrangler read the file _headers beside the page.
    lines = (WEB / "_headers").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "/*"
    assert "  Content-Security-Policy: frame-ancestors 'none'" in lines
    assert '"_headers"' in (WEB / "build.mjs").read_text(encoding="utf-8")


def test_no_source_of_the_page_makes_html_or_code_from_text() -> None:
    sources = [path for path in WEB.rglob("*") if path.suffix in (".ts", ".tsx")]
    assert len(sources) > 20
    forbidden = re.compile(
        r"dangerouslySetInnerHTML|\.innerHTML\b|\.outerHTML\b|insertAdjacentHTML|document\.write"
        r"|\beval\(|new Function\("
    )
    found = [
        f"{path.name}: {line.strip()}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if forbidden.search(line)
    ]
    assert found == []


def test_no_script_stands_in_the_page_itself() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    for tag in re.findall(r"<script[^>]*>", page):
        assert 'src="/' in tag
    assert not re.search(r"\son\w+=", page)
    assert "<style" not in page
