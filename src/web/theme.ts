// Loaded as a blocking classic script before the first paint, so that a stored
// choice of light or dark never flashes the other one. Kept apart from the
// application so that the content security policy needs no inline script.
(() => {
  try {
    const chosen = localStorage.getItem("palimpsest:theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be blocked; the system's preference then decides.
  }
})();

export {};
