(() => {
  "use strict";

  // Sorting. A cell's data-v is its number; cells without one stand last, whichever way.
  const value = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!numeric) return cell.dataset.s ?? cell.textContent.trim();
    return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  };
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const sort = (head) => {
    const table = head.closest("table");
    const body = table.tBodies[0];
    const numeric = head.dataset.sort !== "text";
    const first = head.dataset.sort === "desc" ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].map((row) => [value(row, head.cellIndex, numeric), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (numeric ? a - b : collator.compare(a, b));
    });
    for (const one of table.tHead.querySelectorAll("[aria-sort]")) one.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", order);
    body.append(...rows.map(([, row]) => row));
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("th button");
    if (button) sort(button.closest("th"));
  });

  // Filtering. A row answers to its own words and to those of its block (task, metrics in its columns).
  const box = document.getElementById("filter");
  const task = document.getElementById("task");
  const printed = document.getElementById("printed");
  const count = document.getElementById("count");
  let blocks = null;
  const read = () => [...document.querySelectorAll(".block[data-words]")].map((block) => ({
    block,
    task: block.dataset.task,
    rows: [...block.querySelectorAll("table.rows > tbody > tr")].map((row) => ({
      row,
      task: row.dataset.task,
      printed: row.classList.contains("printed"),
      words: `${block.dataset.words} ${row.dataset.words ?? row.cells[0].textContent}`.toLowerCase(),
    })),
  }));
  const apply = () => {
    blocks ??= read();
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = task.value;
    let shown = 0;
    let all = 0;
    for (const { block, task: own, rows } of blocks) {
      let visible = 0;
      for (const one of rows) {
        const elsewhere = chosen && (own ?? one.task ?? chosen) !== chosen;
        const show = !elsewhere && (printed.checked || !one.printed) && words.every((word) => one.words.includes(word));
        one.row.hidden = !show;
        visible += show;
      }
      block.hidden = visible === 0;
      shown += visible;
      all += rows.length;
    }
    count.textContent = shown === all ? `${all.toLocaleString("en")} rows` : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} rows`;
  };
  let waiting = 0;
  box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 120); });
  for (const control of [task, printed]) control.addEventListener("change", apply);
  // A link into a block that the filter hides shows everything again.
  document.querySelector(".contents").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    const target = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!target?.hidden) return;
    box.value = "";
    task.value = "";
    printed.checked = true;
    apply();
  });
  // Browsers fill in forms again when one comes back to a page.
  if (box.value || task.value || !printed.checked) apply();
})();
