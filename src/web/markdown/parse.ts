// Markdown to tokens. Only the tokenizer of `marked` is used: nothing here ever
// becomes an HTML string, so no text of a model or user can become markup.
import { Marked, type Token } from "marked";

export interface MathToken {
  type: "math";
  raw: string;
  text: string;
  display: boolean;
}

const parser = new Marked({ gfm: true, breaks: false });

parser.use({
  extensions: [
    {
      name: "math",
      level: "block",
      start: (source) => /\$\$|\\\[/.exec(source)?.index,
      tokenizer(source) {
        const match = /^(?:\$\$([^$]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(source);
        if (!match) return undefined;
        return { type: "math", raw: match[0], text: (match[1] ?? match[2] ?? "").trim(), display: true };
      },
    },
    {
      name: "math",
      level: "inline",
      start: (source) => /\$|\\\(/.exec(source)?.index,
      tokenizer(source) {
        // A digit after the closing sign, or a space inside it, means money and not maths.
        const match = /^(?:\$(?!\s|\$)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?![\d$])|\\\(([\s\S]+?)\\\))/.exec(source);
        if (!match) return undefined;
        return { type: "math", raw: match[0], text: (match[1] ?? match[2] ?? "").trim(), display: false };
      },
    },
  ],
});

export const parseMarkdown = (text: string): Token[] => parser.lexer(text);

const entities: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", mdash: "—", ndash: "–", hellip: "…",
};

/** Character references as the reader should see them; unknown ones stay as written. */
export function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name) return entities[(name as string).toLowerCase()] ?? whole;
    const code = decimal ? Number(decimal) : Number.parseInt(hex as string, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
  });
}

/** The address when following it can do no harm, else null. */
export function safeHref(href: string): string | null {
  const address = decodeEntities(href).trim();
  if (address.startsWith("#/")) return address;
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:", "tel:"].includes(url.protocol) ? url.toString() : null;
  } catch {
    return null;
  }
}
