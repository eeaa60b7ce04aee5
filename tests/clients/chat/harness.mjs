// React in jsdom with the unmodified hooks of the agents package, and a look at what they show.
import { JSDOM } from "jsdom";

const page = new JSDOM("<!doctype html><div id=root></div>", { url: "http://localhost/" });
globalThis.window = page.window;
globalThis.document = page.window.document;
globalThis.HTMLElement = page.window.HTMLElement;
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const React = await import("react");
const { createRoot } = await import("react-dom/client");
const { useAgent } = await import("agents/react");
const { useAgentChat } = await import("@cloudflare/ai-chat/react");

export const address = new URL(process.env.PALIMPSEST_URL);

let rooms = 0;
/** A fresh object's name. */
export const room = () => `room-${process.pid}-${(rooms += 1)}`;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until the condition holds; fails with what it saw. */
export async function until(condition, what, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not seen within ${ms} ms: ${what ?? condition}`);
    await pause(10);
  }
}

/** The text parts of a message. */
export const textOf = (message) =>
  message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

/** Mounts a page that uses both hooks; `tab.chat` and `tab.agent` are what they last returned. */
export async function mount({ agent = "Tester", name, query, options = {}, ...agentOptions }) {
  const container = document.createElement("div");
  document.body.append(container);
  const tab = { statuses: [], errors: [], turns: [], states: [], mcp: [], renders: 0, frames: [] };
  function Page() {
    tab.agent = useAgent({
      agent,
      name,
      query,
      host: address.host,
      protocol: "ws",
      onStateUpdate: (state) => tab.states.push(state),
      onMcpUpdate: (mcp) => tab.mcp.push(mcp),
      ...agentOptions,
    });
    tab.chat = useAgentChat({
      agent: tab.agent,
      onTurnEnd: (event) => tab.turns.push(event),
      onError: (error) => tab.errors.push(error.message),
      ...options,
    });
    tab.renders += 1;
    if (tab.statuses.at(-1) !== tab.chat.status) tab.statuses.push(tab.chat.status);
    return null;
  }
  const root = createRoot(container);
  root.render(React.createElement(React.Suspense, { fallback: null }, React.createElement(Page)));
  tab.unmount = () => root.unmount();
  tab.texts = () => tab.chat.messages.map((message) => `${message.role}: ${textOf(message).trim()}`);
  tab.ready = () => until(() => tab.chat?.status === "ready", "status ready");
  tab.say = (text) => tab.chat.sendMessage({ text });
  await until(() => tab.chat && tab.agent.identified, "the page mounts and the agent is identified");
  tab.agent.addEventListener("message", (event) => tab.frames.push(JSON.parse(event.data)));
  return tab;
}

/** The conversation as the server has it. */
export async function stored(name, { agent = "tester", query = "" } = {}) {
  const answer = await fetch(`${address.origin}/agents/${agent}/${name}/get-messages${query}`);
  return answer.json();
}

/** The same, as `role: text` lines. */
export const storedTexts = async (name, options) =>
  (await stored(name, options)).map((message) => `${message.role}: ${textOf(message).trim()}`);
