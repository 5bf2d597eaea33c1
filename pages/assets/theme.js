// Sets the light or dark theme: the one that the user has chosen with the switch, else that
// of the operating system. The script runs before the page is drawn, so that the page does
// not flash in the other theme.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try { return localStorage.getItem("theme"); } catch { return null; } // the browser may forbid storage
  };
  const apply = () => {
    const chosen = stored();
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
    else delete root.dataset.theme;
  };
  apply();
  addEventListener("storage", apply); // the user has switched the theme in another tab

  addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-switch]")) button.hidden = false;
  });
  addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const dark = (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    try { localStorage.setItem("theme", dark ? "light" : "dark"); } catch { /* the choice holds until the page is left */ }
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
