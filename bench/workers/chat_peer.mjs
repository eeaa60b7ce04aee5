// npm AIChatAgent, newest release, whose model sends as many text deltas as the request asks for.
import { AIChatAgent } from "@cloudflare/ai-chat";
import { routeAgentRequest } from "agents";

function* chunksOf({ chunks, size }) {
  const delta = "x".repeat(size - 1) + " ";
  yield { type: "start" };
  yield { type: "text-start", id: "t" };
  for (let number = 0; number < chunks; number += 1) yield { type: "text-delta", id: "t", delta };
  yield { type: "text-end", id: "t" };
  yield { type: "finish" };
}

// One server-sent event for each pull: nothing of the AI SDK's own stream is measured.
const events = (chunks) => {
  const encoder = new TextEncoder();
  return new ReadableStream({
    pull(controller) {
      const { value, done } = chunks.next();
      controller.enqueue(encoder.encode(`data: ${done ? "[DONE]" : JSON.stringify(value)}\n\n`));
      if (done) controller.close();
    },
  });
};

export class Chat extends AIChatAgent {
  async onChatMessage(_onFinish, { body }) {
    return new Response(events(chunksOf(body)), {
      headers: { "content-type": "text/event-stream" },
    });
  }
}

export default {
  async fetch(request, env) {
    return (await routeAgentRequest(request, env)) ?? new Response("ok");
  },
};
