import { useState } from "react";
import type { AgentApi } from "../api/client";
import { saveToken } from "../api/token";
import { Dialog } from "../ui/Dialog";

/** Asks for the token of an agent that lets nobody in without one. */
export function TokenDialog({ api, refused }: { api: AgentApi; refused: boolean }) {
  const [token, setToken] = useState("");
  return (
    <Dialog title="This agent asks for a token" className="token" onClose={() => undefined}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          saveToken(api.agent, api.name, token.trim());
          location.reload();
        }}
      >
        <p>{refused ? "The token that was given is not valid here, or no longer." : "Whoever runs the agent can make one for you."}</p>
        <input
          type="password"
          data-first-focus
          autoComplete="off"
          aria-label="Token"
          value={token}
          onChange={(event) => setToken(event.target.value)}
        />
        <p className="quiet">It is kept in this tab until you close it.</p>
        <button type="submit" className="button primary" disabled={!token.trim()}>Open the agent</button>
      </form>
    </Dialog>
  );
}
