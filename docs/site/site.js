// The theme's navigations of code blocks have no names, so that a screen reader cannot tell them apart.
new MutationObserver(() =>
  document.querySelectorAll(".md-code__nav").forEach((nav, number) => nav.setAttribute("aria-label", `Code block ${number + 1}`)),
).observe(document.body, { childList: true, subtree: true });
