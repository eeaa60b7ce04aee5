// Serves static files in front of the Worker, as Cloudflare does for a project with assets: a path
// that names a file gets the file, everything else goes to the Worker.

const TYPES = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  ico: "image/x-icon",
  js: "text/javascript; charset=utf-8",
  json: "application/json",
  map: "application/json",
  mjs: "text/javascript; charset=utf-8",
  png: "image/png",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  webmanifest: "application/manifest+json",
  woff2: "font/woff2",
};

// What the file _headers asks of Cloudflare.
const PROTECTION = {
  "content-security-policy": "frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

const fileOf = (pathname) => (pathname.endsWith("/") ? `${pathname}index.html` : pathname);

export default {
  async fetch(request, env) {
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead || request.headers.has("upgrade")) return env.WORKER.fetch(request);
    const url = new URL(request.url);
    const file = fileOf(url.pathname);
    if (file === "/_headers") return env.WORKER.fetch(request);
    const found = await env.FILES.fetch(new Request(new URL(file, url), { method: request.method }));
    const isListing = found.headers.get("content-type") === "application/json";
    if (!found.ok || isListing) {
      await found.body?.cancel();
      return env.WORKER.fetch(request);
    }
    const headers = new Headers(found.headers);
    const type = TYPES[file.slice(file.lastIndexOf(".") + 1)];
    if (type) headers.set("content-type", type);
    for (const [name, value] of Object.entries(PROTECTION)) headers.set(name, value);
    return new Response(found.body, { status: found.status, headers });
  },
};
