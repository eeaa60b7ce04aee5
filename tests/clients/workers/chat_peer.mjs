// npm AIChatAgent that answers as the message says: the other side of the differential test.
import { AIChatAgent } from "@cloudflare/ai-chat";
import { routeAgentRequest } from "agents";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function* answer(messages) {
  const start = messages.findLastIndex((message) => message.role === "user");
  const text = messages[start].parts.map((part) => part.text ?? "").join("");
  const results = messages
    .slice(start)
    .flatMap((message) => message.parts)
    .filter((part) => part.toolCallId);
  const [word, ...rest] = text.split(" ");
  yield { type: "start" };
  yield { type: "start-step" };
  for (const part of results)
    if (part.state === "approval-responded")
      yield { type: "tool-output-available", toolCallId: part.toolCallId, output: "removed" };
  if (results.length > 0) {
    yield { type: "text-start", id: "t" };
    yield { type: "text-delta", id: "t", delta: "after" };
    yield { type: "text-end", id: "t" };
  } else if (word === "call") {
    for (const name of rest) {
      yield {
        type: "tool-input-available",
        toolCallId: `call-${name}`,
        toolName: name,
        input: { path: "x" },
      };
      if (name === "remove")
        yield { type: "tool-approval-request", approvalId: "approval", toolCallId: `call-${name}` };
    }
    yield { type: "finish-step" };
    yield { type: "finish", finishReason: "tool-calls" };
    return;
  } else {
    yield { type: "text-start", id: "t" };
    const words = word === "slow" ? rest : `you said ${text}`.split(" ");
    for (const piece of words) {
      yield { type: "text-delta", id: "t", delta: `${piece} ` };
      if (word === "slow") await pause(300);
      if (word === "fail") {
        yield { type: "error", errorText: "the model is tired" };
        return;
      }
    }
    yield { type: "text-end", id: "t" };
  }
  yield { type: "finish-step" };
  yield { type: "finish", finishReason: "stop" };
}

const events = (chunks) => {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await chunks.next();
      controller.enqueue(encoder.encode(`data: ${done ? "[DONE]" : JSON.stringify(value)}\n\n`));
      if (done) controller.close();
    },
  });
};

export class Chat extends AIChatAgent {
  async onChatMessage() {
    const last = this.messages.findLast((message) => message.role === "user");
    const text = last.parts.map((part) => part.text ?? "").join("");
    if (text.startsWith("throw")) throw new Error("a bug");
    return new Response(events(answer(this.messages)), {
      headers: { "content-type": "text/event-stream" },
    });
  }
}

export default {
  async fetch(request, env) {
    return (await routeAgentRequest(request, env)) ?? new Response("ok");
  },
};
