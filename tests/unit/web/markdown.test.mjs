// What the page takes for Markdown, formulas and addresses that may be followed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeEntities, parseMarkdown, safeHref } from "../../../src/web/markdown/parse.ts";

const inline = (text) => parseMarkdown(text)[0].tokens.map((token) => [token.type, token.text ?? token.raw]);
const formulas = (text) => inline(text).filter(([kind]) => kind === "math").map(([, source]) => source);

test("only harmless addresses are followed", () => {
  for (const href of ["https://example.com/a", "http://example.com/", "mailto:a@example.com", "tel:+123", "#/session?m=1"]) {
    assert.equal(safeHref(href), href);
  }
  for (const href of [
    "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "java&#x73;cript:alert(1)",
    "&#106;avascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://example.com/x", "/relative", "",
  ]) {
    assert.equal(safeHref(href), null, href);
  }
});

test("raw HTML stays text", () => {
  assert.equal(parseMarkdown("<script>x</script>\n")[0].type, "html");
  assert.deepEqual(inline("a <b onclick=x>c"), [["text", "a "], ["html", "<b onclick=x>"], ["text", "c"]]);
});

test("formulas are told from money", () => {
  assert.deepEqual(formulas("so $a_1 + b$ holds"), ["a_1 + b"]);
  assert.deepEqual(formulas("\\(x\\) and $y$."), ["x", "y"]);
  assert.deepEqual(formulas("it costs $5 and $6"), []);
  assert.deepEqual(formulas("from $ 5 to 6 $"), []);
  assert.deepEqual(formulas("`$x$`"), []);
  assert.equal(parseMarkdown("$$\n\\frac{1}{2}\n$$\n")[0].text, "\\frac{1}{2}");
  assert.equal(parseMarkdown("\\[ x \\]\n")[0].display, true);
});

test("an answer cut anywhere while it streams can be read", () => {
  const whole = "# A\n\n1. b\n   - c `d`\n\n| e | f |\n|---|--:|\n| g | h |\n\n```py\nx = '$'\n```\n\n> $$i$$\n\n[j](https://k.example) **l** $m$ &amp;";
  for (let length = 0; length <= whole.length; length += 1) {
    const tokens = parseMarkdown(whole.slice(0, length));
    const letters = (text) => text.replace(/\s/g, "");
    assert.equal(letters(tokens.map((token) => token.raw).join("")), letters(whole.slice(0, length)));
  }
});

test("character references are read as they should be seen", () => {
  assert.equal(decodeEntities("&lt;b&gt; &amp;amp; &#233; &#xe9; &nope; &#0; &#xd800;"), "<b> &amp; é é &nope; \ufffd \ufffd");
});
