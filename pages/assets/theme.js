// Light or dark: as the system says, until somebody has chosen here. It runs
// before the page is drawn, so that no page flashes in the other colours.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try { return localStorage.getItem("theme"); } catch { return null; } // storage may be forbidden
  };
  const apply = () => {
    const chosen = stored();
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
    else delete root.dataset.theme;
  };
  apply();
  addEventListener("storage", apply); // chosen in another tab

  addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-switch]")) button.hidden = false;
  });
  addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const dark = (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    try { localStorage.setItem("theme", dark ? "light" : "dark"); } catch { /* it lasts until the next page */ }
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
