import type { Token, Tokens } from "marked";
import { createContext, Fragment, lazy, memo, Suspense, useContext, useMemo, type ReactNode } from "react";
import { CodeBlock } from "./CodeBlock";
import { decodeEntities, parseMarkdown, safeHref, type MathToken } from "./parse";

const Maths = lazy(() => import("./Maths"));

function Formula({ token }: { token: MathToken }) {
  return (
    <Suspense fallback={<code>{token.text}</code>}>
      <Maths source={token.text} display={token.display} />
    </Suspense>
  );
}

function Link({ token }: { token: Tokens.Link }) {
  const href = safeHref(token.href);
  const label = token.tokens.length > 0 ? <Inline tokens={token.tokens} /> : token.text;
  if (!href) return <>{label}</>;
  const outside = !href.startsWith("#/");
  return (
    <a href={href} title={token.title ?? undefined} {...(outside ? { target: "_blank", rel: "noopener noreferrer" } : {})}>
      {label}
    </a>
  );
}

/** Only images carried in the text itself are drawn; fetching others would tell a third party what is read. */
function Picture({ token }: { token: Tokens.Image }) {
  if (/^data:image\/(?:png|jpeg|gif|webp|avif);/i.test(token.href)) return <img src={token.href} alt={token.text} loading="lazy" />;
  const href = safeHref(token.href);
  const label = `Image: ${decodeEntities(token.text) || token.href}`;
  return href ? (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  ) : (
    <>{label}</>
  );
}

function inline(token: Token): ReactNode {
  switch (token.type) {
    case "text": {
      const text = token as Tokens.Text;
      return text.tokens ? <Inline tokens={text.tokens} /> : decodeEntities(text.text);
    }
    case "strong":
      return <strong><Inline tokens={(token as Tokens.Strong).tokens} /></strong>;
    case "em":
      return <em><Inline tokens={(token as Tokens.Em).tokens} /></em>;
    case "del":
      return <del><Inline tokens={(token as Tokens.Del).tokens} /></del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link token={token as Tokens.Link} />;
    case "image":
      return <Picture token={token as Tokens.Image} />;
    case "escape":
      return (token as Tokens.Escape).text;
    case "math":
      return <Formula token={token as unknown as MathToken} />;
    case "checkbox":
      return <input type="checkbox" checked={(token as Tokens.Checkbox).checked} disabled readOnly aria-label="task" />;
    default:
      // Raw HTML and anything unknown is shown as the text it is.
      return token.raw;
  }
}

function Inline({ tokens }: { tokens: Token[] }) {
  return tokens.map((token, index) => <Fragment key={index}>{inline(token)}</Fragment>);
}

function List({ token }: { token: Tokens.List }) {
  const items = token.items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined}>
      <Blocks tokens={item.tokens} tight={!item.loose} />
    </li>
  ));
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token }: { token: Tokens.Table }) {
  const align = (index: number) => token.align[index] ?? undefined;
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, index) => (
              <th key={index} scope="col" data-align={align(index)}><Inline tokens={cell.tokens} /></th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, rowIndex) => (
            <tr key={rowIndex}>
              {row.map((cell, index) => (
                <td key={index} data-align={align(index)}><Inline tokens={cell.tokens} /></td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The heading depths that a message uses, outermost first. */
const Depths = createContext<readonly number[]>([]);

function Heading({ token }: { token: Tokens.Heading }) {
  const depths = useContext(Depths);
  // A message stands under a heading of level 2, so its own outermost ones are level 3.
  const Level = (["h3", "h4", "h5", "h6"] as const)[Math.min(3, Math.max(0, depths.indexOf(token.depth)))]!;
  return <Level><Inline tokens={token.tokens} /></Level>;
}

function block(token: Token, tight: boolean): ReactNode {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p dir="auto"><Inline tokens={(token as Tokens.Paragraph).tokens} /></p>;
    case "heading":
      return <Heading token={token as Tokens.Heading} />;
    case "code":
      return <CodeBlock code={(token as Tokens.Code).text} language={(token as Tokens.Code).lang ?? ""} />;
    case "blockquote":
      return <blockquote><Blocks tokens={(token as Tokens.Blockquote).tokens} /></blockquote>;
    case "list":
      return <List token={token as Tokens.List} />;
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "html":
      return <p dir="auto" className="literal">{token.raw.trim()}</p>;
    default: {
      const content = inline(token);
      return tight || token.type === "checkbox" ? content : <p dir="auto">{content}</p>;
    }
  }
}

const Block = memo(
  ({ token, tight }: { token: Token; tight: boolean }) => block(token, tight),
  // While an answer grows, only its last block changes.
  (before, after) => before.token.raw === after.token.raw && before.token.type === after.token.type,
);

function Blocks({ tokens, tight = false }: { tokens: Token[]; tight?: boolean }) {
  return tokens.map((token, index) => <Block key={index} token={token} tight={tight} />);
}

/** Markdown as React elements. */
export const Markdown = memo(({ text }: { text: string }) => {
  const tokens = useMemo(() => parseMarkdown(text), [text]);
  const used = tokens.filter((token) => token.type === "heading").map((token) => (token as Tokens.Heading).depth);
  const key = [...new Set(used)].sort().join();
  const depths = useMemo(() => (key ? key.split(",").map(Number) : []), [key]);
  return (
    <div className="markdown">
      <Depths value={depths}>
        <Blocks tokens={tokens} />
      </Depths>
    </div>
  );
});
