(() => {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const KEY = "capbench-theme";
  // Browsers may refuse storage to files; the button works all the same.
  const remembered = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem(KEY, theme); } catch { /* only this page */ } };
  const shown = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
  const first = remembered();
  if (first === "light" || first === "dark") root.dataset.theme = first;
  root.classList.add("js");
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = shown() === "dark" ? "Light theme" : "Dark theme"; };
    button.addEventListener("click", () => {
      root.dataset.theme = shown() === "dark" ? "light" : "dark";
      remember(root.dataset.theme);
      label();
    });
    dark.addEventListener("change", label);
    label();
  });
})();