import { tokenize, type ShjLanguage } from "@speed-highlight/core";
import { memo, useEffect, useState } from "react";
import { IconButton } from "../ui/Button";
import { useCopy } from "../ui/useCopy";

const aliases: Record<string, ShjLanguage> = {
  javascript: "js", jsx: "js", mjs: "js", typescript: "ts", tsx: "ts", python: "py", python3: "py", sh: "bash", shell: "bash",
  zsh: "bash", console: "bash", "c++": "c", cpp: "c", h: "c", cs: "java", csharp: "java", kotlin: "java", yml: "yaml",
  rust: "rs", golang: "go", dockerfile: "docker", makefile: "make", patch: "diff", perl: "pl", markdown: "md", svg: "xml",
  jsonc: "json", jsonl: "json", sqlite: "sql", postgres: "sql", assembly: "asm", cfg: "ini", conf: "ini", vue: "html",
};
const known = new Set<string>([
  "asm", "bash", "c", "css", "csv", "diff", "docker", "git", "go", "html", "http", "ini", "java", "js", "json", "log", "lua",
  "make", "md", "pl", "py", "regex", "rs", "sql", "toml", "ts", "uri", "xml", "yaml",
]);

/** Colouring costs more than it tells above this size (UTF-16 units). */
const maxHighlighted = 40_000;

interface Piece {
  text: string;
  kind: string | undefined;
}

function useHighlight(code: string, language: string): Piece[] | null {
  const [done, setDone] = useState<{ code: string; pieces: Piece[] } | null>(null);
  useEffect(() => {
    const name = language.toLowerCase();
    const target = aliases[name] ?? (known.has(name) ? (name as ShjLanguage) : null);
    if (!target || code.length > maxHighlighted) return;
    let current = true;
    const pieces: Piece[] = [];
    tokenize(code, target, (text, kind) => pieces.push({ text, kind })).then(
      () => {
        if (current) setDone({ code, pieces });
      },
      () => undefined, // The plain text stays.
    );
    return () => {
      current = false;
    };
  }, [code, language]);
  return done?.code === code ? done.pieces : null;
}

export const CodeBlock = memo(({ code, language }: { code: string; language: string }) => {
  const name = language.trim().split(/\s/)[0] ?? "";
  const pieces = useHighlight(code, name);
  const { copied, copy } = useCopy();
  return (
    <figure className="code">
      <figcaption>
        <span>{name || "text"}</span>
        <IconButton icon={copied ? "check" : "copy"} label={copied ? "Copied" : "Copy code"} onClick={() => copy(code)} />
      </figcaption>
      <pre tabIndex={0} dir="ltr">
        <code>
          {pieces
            ? pieces.map((piece, index) => (
                <span key={index} className={piece.kind ? `token-${piece.kind}` : undefined}>{piece.text}</span>
              ))
            : code}
        </code>
      </pre>
    </figure>
  );
});
