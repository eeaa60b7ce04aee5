import type { FileUIPart } from "ai";
import { formatBytes } from "../ui/format";

export interface Attachment {
  id: string;
  part: FileUIPart;
  bytes: number;
}

/** Used until the agent has told its own limit. */
export const defaultAttachmentLimit = 1_000_000;
export const maxAttachments = 10;

function readAsDataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsDataURL(file);
  });
}

/** Reads files; throws with a text for the user when one is too large or unreadable. */
export async function readAttachment(file: File, limit: number): Promise<Attachment> {
  const name = file.name || "pasted image";
  if (file.size > limit) {
    throw new Error(`${name} has ${formatBytes(file.size)}; the agent accepts up to ${formatBytes(limit)} per file.`);
  }
  const mediaType = file.type || "application/octet-stream";
  const url = await readAsDataUrl(file);
  return { id: crypto.randomUUID(), bytes: file.size, part: { type: "file", mediaType, filename: name, url } };
}
