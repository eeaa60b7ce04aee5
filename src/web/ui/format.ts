// Numbers and times as people read them, in the reader's own locale.

const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat();
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

export const formatTokens = (count: number): string => (count < 10_000 ? whole.format(count) : compact.format(count));
export const formatCount = (count: number): string => whole.format(count);

/** A stored time: milliseconds, or an ISO text as other clients write it. */
export function toTime(value: number | string | null | undefined): number | null {
  if (value === null || value === undefined) return null;
  const time = typeof value === "number" ? value : Date.parse(value);
  return Number.isFinite(time) ? time : null;
}

export function formatTime(time: number): string {
  const sameDay = new Date(time).toDateString() === new Date().toDateString();
  // The parts of a clock time stay on one line; a date may stand on its own above it.
  return (sameDay ? clock : dayAndClock).format(time).replace(/[ \u202f](?=[AP]M$)/i, "\u00a0");
}

export const formatFullTime = (time: number): string => full.format(time);

export function formatRelative(time: number, now = Date.now()): string {
  const seconds = Math.round((time - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 45) return relative.format(seconds, "second");
  if (size < 2700) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 79_200) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1_048_576) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1_048_576).toFixed(1)} MB`;
}

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`;
