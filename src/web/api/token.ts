// The token of a deployment that asks for one. It is kept in this tab only and
// never in the page's address.
import { readStored, writeStored } from "../app/storage";

const key = (agent: string, name: string): string => `token:${agent}/${name}`;

export const readToken = (agent: string, name: string): string => readStored(key(agent, name), "", "tab");

export const saveToken = (agent: string, name: string, token: string): void => writeStored(key(agent, name), token, "tab");
