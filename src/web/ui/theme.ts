import { useCallback, useState } from "react";

export type Theme = "system" | "light" | "dark";

function stored(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

/** The chosen theme and a function that moves to the next of system, light, dark. */
export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(stored);
  const next = useCallback(() => {
    const following: Theme = theme === "system" ? "light" : theme === "light" ? "dark" : "system";
    if (following === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = following;
    try {
      if (following === "system") localStorage.removeItem("palimpsest:theme");
      else localStorage.setItem("palimpsest:theme", following);
    } catch {
      // Blocked storage: the choice lasts until the page is closed.
    }
    setTheme(following);
  }, [theme]);
  return [theme, next];
}
