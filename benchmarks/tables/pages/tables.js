(() => {
  "use strict";

  // Sorting. data-v is the value of a cell; cells without it come last in either order.
  const value = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!numeric) return cell.dataset.s ?? cell.textContent.trim();
    return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  };
  // Added to the sort value of a mean rank for each chosen column without a rank.
  const MISSING = 10000;
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

  // Choosing columns of a matrix: by task and by metric. The mean rank follows, and rows are put in its order.
  const matrices = [...document.querySelectorAll(".chosen")].map((box) => {
    const section = box.closest(".block");
    const table = section.querySelector("table");
    const heads = [...table.tHead.rows[0].cells];
    const ticks = (kind) => [...box.querySelectorAll(`input[data-${kind}]`)];
    const choose = () => {
      const on = {};
      for (const kind of ["task", "metric"]) {
        const names = ticks(kind).filter((one) => one.checked).map((one) => one.dataset[kind]);
        box.querySelector(`[data-count=${kind}]`).textContent = `${names.length} of ${ticks(kind).length}`;
        on[kind] = new Set(names);
      }
      const columns = heads.filter((head) => head.dataset.task);
      for (const head of columns) head.hidden = !(on.task.has(head.dataset.task) && on.metric.has(head.dataset.metric));
      const shown = columns.filter((head) => !head.hidden).map((head) => head.cellIndex);
      const mean = heads.find((head) => head.dataset.key === "mean");
      for (const row of table.tBodies[0].rows) {
        for (const head of columns) row.cells[head.cellIndex].hidden = head.hidden;
        const ranks = shown.map((place) => row.cells[place].dataset.r).filter(Boolean).map(Number);
        const cell = row.cells[mean.cellIndex];
        const average = ranks.reduce((sum, rank) => sum + rank, 0) / ranks.length;
        if (ranks.length) cell.dataset.v = MISSING * (shown.length - ranks.length) + average; else delete cell.dataset.v;
        cell.textContent = ranks.length ? average.toFixed(1) : "–";
        if (ranks.length && ranks.length < shown.length) {
          const of = document.createElement("small");
          of.textContent = `of ${ranks.length}`;
          cell.append(" ", of);
        }
      }
      sort(heads[0], "ascending");
      sort(mean, "ascending");
    };
    const words = (kind) => [`${section.id}-${kind}s`, ticks(kind)];
    return { choose, box, words };
  });

  // The URL holds filters and sort orders: q, task, published=0, and sort=TABLE:COLUMN:ascending per table;
  // of a matrix, MATRIX-tasks and MATRIX-metrics where another choice than the first was made.
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
      // A matrix is sorted by its mean rank at first.
      if (head && !(head.dataset.key === "mean" && head.ariaSort === "ascending")) values.append("sort", `${named(table)}:${head.dataset.key}:${head.getAttribute("aria-sort")}`);
    }
    for (const { words } of matrices) for (const kind of ["task", "metric"]) {
      const [name, ticks] = words(kind);
      if (ticks.every((one) => one.checked === one.defaultChecked)) continue;
      values.append(name, "");
      for (const one of ticks) if (one.checked) values.append(name, one.dataset[kind]);
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
    for (const { choose, words } of matrices) {
      for (const kind of ["task", "metric"]) {
        const [name, ticks] = words(kind);
        const named = values.getAll(name);
        for (const one of ticks) one.checked = named.length ? named.includes(one.dataset[kind]) : one.defaultChecked;
      }
      choose();
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
  for (const { box, choose } of matrices) box.addEventListener("change", () => { choose(); tell(); });
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
