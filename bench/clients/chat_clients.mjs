// Measures one turn with a number of connected clients: node chat_clients.mjs URL CLIENTS CHUNKS SIZE
import { performance } from "node:perf_hooks";
import WebSocket from "ws";

const [, , url, clients, chunks, size] = process.argv;

function open(name) {
  const socket = new WebSocket(`${url}?_pk=${name}`);
  socket.frames = 0;
  socket.characters = 0;
  socket.finished = new Promise((resolve) => {
    socket.on("message", (data) => {
      const frame = JSON.parse(data.toString());
      if (frame.type !== "cf_agent_use_chat_response") return;
      if (frame.done) resolve(performance.now());
      else if (frame.body) {
        const chunk = JSON.parse(frame.body);
        if (chunk.type !== "text-delta") return;
        socket.first ??= performance.now();
        socket.frames += 1;
        socket.characters += chunk.delta.length;
      }
    });
  });
  return new Promise((resolve, reject) => {
    socket.once("open", () => resolve(socket));
    socket.once("error", reject);
  });
}

const sockets = [];
for (let number = 0; number < Number(clients); number += 1) sockets.push(await open(`c${number}`));
await new Promise((resolve) => setTimeout(resolve, 300));
const message = { id: "u1", role: "user", parts: [{ type: "text", text: "go" }] };
const body = JSON.stringify({
  messages: [message],
  trigger: "submit-message",
  chunks: Number(chunks),
  size: Number(size),
});
const began = performance.now();
sockets[0].send(
  JSON.stringify({ type: "cf_agent_use_chat_request", id: "r1", init: { method: "POST", body } }),
);
const ends = await Promise.all(sockets.map((socket) => socket.finished));
console.log(
  JSON.stringify({
    first: sockets[0].first - began,
    requester: ends[0] - began,
    all: Math.max(...ends) - began,
    frames: sockets[0].frames,
    characters: sockets.map((socket) => socket.characters),
  }),
);
process.exit(0);
