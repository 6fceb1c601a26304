(() => {
  "use strict";
  // A line below a box that is too narrow for its table gives the number of hidden columns.
  const say = (box) => {
    const heads = [...box.querySelectorAll("thead tr:last-child > :not([hidden])")];
    const cut = heads.filter((head) => head.offsetLeft + head.offsetWidth > box.clientWidth + 2).length;
    let line = box.nextElementSibling?.matches(".cut") ? box.nextElementSibling : null;
    box.classList.toggle("is-cut", cut > 0);
    if (!cut) { line?.remove(); return; }
    if (!line) {
      line = document.createElement("p");
      line.className = "cut small muted";
      box.after(line);
    }
    line.textContent = `${cut} of ${heads.length} columns do not fit here: the table scrolls sideways.`;
  };
  const watch = () => {
    const seen = new ResizeObserver((all) => { for (const one of all) say(one.target); });
    for (const box of document.querySelectorAll(".scroll")) seen.observe(box);
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", watch);
  else watch();
})();