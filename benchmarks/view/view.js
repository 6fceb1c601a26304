(() => {
  "use strict";
  const keys = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]", Escape: "a[rel=up]" };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const at = event.target;
    const writes = at.matches("input, select, textarea");
    if (event.key === "Escape" && writes) { at.blur(); return; }
    if (writes) return;
    // Arrow keys scroll a box that overflows horizontally.
    if (at.matches(".scroll") && at.scrollWidth > at.clientWidth && event.key.startsWith("Arrow")) return;
    if (event.key === "/") {
      const search = document.getElementById("q");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
      return;
    }
    const link = keys[event.key] && document.querySelector(keys[event.key]);
    if (link) { event.preventDefault(); link.click(); }
  });
})();
