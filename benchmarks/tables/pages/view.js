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
      if (search) { event.preventDefault(); search.focus(); search.select(); }
      return;
    }
    const link = keys[event.key] && document.querySelector(keys[event.key]);
    if (link) { event.preventDefault(); link.click(); }
  });
  const search = document.getElementById("q");
  if (document.querySelector("[data-live]")) {
    setInterval(() => { if (document.activeElement !== search) location.reload(); }, 10000);
  }
  // Drawing across bars filters by the range from the first to the last.
  const brush = document.querySelector(".brush");
  const bars = [...brush?.querySelectorAll("a") ?? []];
  let first = -1;
  const place = (event) => bars.indexOf(event.target.closest("a"));
  const inside = (last) => bars.slice(Math.min(first, last), Math.max(first, last) + 1);
  brush?.addEventListener("dragstart", (event) => event.preventDefault());
  brush?.addEventListener("pointerdown", (event) => { first = event.button ? -1 : place(event); });
  brush?.addEventListener("pointermove", (event) => {
    const last = place(event);
    if (first < 0 || last < 0) return;
    const chosen = inside(last);
    for (const bar of bars) bar.classList.toggle("chosen", chosen.includes(bar));
  });
  addEventListener("pointerup", (event) => {
    const last = event.target.closest?.(".brush") ? place(event) : -1;
    if (first >= 0 && last >= 0 && first !== last) {
      const chosen = inside(last), { name, rest } = brush.dataset;
      search.value = `${rest}${name} >= ${chosen[0].dataset.low} and ${name} < ${chosen.at(-1).dataset.high}`;
      search.form.submit();
    }
    first = -1;
    for (const bar of bars) bar.classList.remove("chosen");
  });
})();
