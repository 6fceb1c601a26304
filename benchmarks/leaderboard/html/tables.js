(() => {
  "use strict";

  // Sorting. data-v is the value of a cell; cells without it come last in either order.
  const value = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!numeric) return cell.dataset.s ?? cell.textContent.trim();
    return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  };
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const sort = (head, order) => {
    const table = head.closest("table");
    const body = table.tBodies[0];
    const numeric = head.dataset.sort !== "text";
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
  const turned = (head) => {
    const first = head.dataset.sort === "desc" ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    return head.getAttribute("aria-sort") === first ? other : first;
  };

  // Filtering. A row matches by its own words and those of its block (task, metrics in its columns).
  const box = document.getElementById("filter");
  const task = document.getElementById("task");
  const printed = document.getElementById("printed");
  const count = document.getElementById("count");
  let blocks = null;
  const read = () => [...document.querySelectorAll(".block[data-words]")].map((block) => ({
    block,
    task: block.dataset.task,
    rows: [...block.querySelectorAll("table.rows > tbody > tr, [data-row]")].map((row) => ({
      row,
      task: row.dataset.task,
      printed: row.classList.contains("printed"),
      words: `${block.dataset.words} ${row.dataset.words ?? row.cells[0].textContent}`.toLowerCase(),
    })),
  }));
  const apply = () => {
    blocks ??= read();
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = task?.value;
    let shown = 0;
    let all = 0;
    for (const { block, task: own, rows } of blocks) {
      let visible = 0;
      for (const one of rows) {
        const ofOtherTask = chosen && (own ?? one.task ?? chosen) !== chosen;
        const show = !ofOtherTask && (printed.checked || !one.printed) && words.every((word) => one.words.includes(word));
        one.row.hidden = !show;
        visible += show;
      }
      block.hidden = visible === 0;
      shown += visible;
      all += rows.length;
    }
    count.textContent = shown === all ? `${all.toLocaleString("en")} rows` : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} rows`;
  };

  // The URL holds filters and sort orders: q, task, published=0, and sort=TABLE:COLUMN:ascending per table.
  const tables = () => [...document.querySelectorAll(".block[id] table")];
  const named = (table) => table.closest(".block").id;
  const tell = () => {
    const address = new URL(location.href);
    const values = new URLSearchParams();
    if (box?.value) values.set("q", box.value);
    if (task?.value) values.set("task", task.value);
    if (printed && !printed.checked) values.set("published", "0");
    for (const table of tables()) {
      const head = table.tHead.querySelector('[aria-sort$="scending"]');
      if (head) values.append("sort", `${named(table)}:${head.dataset.key}:${head.getAttribute("aria-sort")}`);
    }
    address.search = values;
    // Some browsers cannot change the URL of a local file; filters and sorting work without it.
    try { history.replaceState(null, "", address); } catch { /* only this page */ }
  };
  const follow = () => {
    const values = new URLSearchParams(location.search);
    if (box) {
      box.value = values.get("q") ?? "";
      if (task) task.value = [...task.options].some((one) => one.value === values.get("task")) ? values.get("task") : "";
      printed.checked = values.get("published") !== "0";
      if (box.value || task?.value || !printed.checked) apply();
    }
    for (const entry of values.getAll("sort")) {
      const [id, order] = [entry.slice(0, entry.indexOf(":")), entry.slice(entry.lastIndexOf(":") + 1)];
      const key = entry.slice(id.length + 1, entry.lastIndexOf(":"));
      const table = tables().find((one) => named(one) === id);
      const head = [...(table?.tHead.querySelectorAll("[data-key]") ?? [])].find((one) => one.dataset.key === key);
      if (head && (order === "ascending" || order === "descending")) sort(head, order);
    }
  };

  document.addEventListener("click", (event) => {
    const head = event.target.closest("th button")?.closest("th");
    if (head) { sort(head, turned(head)); tell(); }
  });
  let waiting = 0;
  const change = () => { apply(); tell(); };
  box?.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(change, 120); });
  for (const control of [task, printed]) control?.addEventListener("change", change);
  // A link into a hidden block resets the filters.
  document.addEventListener("click", (event) => {
    const link = box && event.target.closest('a[href^="#"]');
    const target = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!target?.hidden) return;
    box.value = "";
    if (task) task.value = "";
    printed.checked = true;
    change();
  });
  follow();
  // Browsers restore form fields when a user returns to a page; the URL has the actual choice.
  addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
})();
