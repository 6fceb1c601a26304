(() => {
  "use strict";
  const PAGE = 48;
  const at = (id) => document.getElementById(id);
  const samples = JSON.parse(at("data").textContent);
  const columns = [...at("sort").options].map((option) => option.dataset).filter(({ name }) => name);
  const textOf = (sample) => [sample.id, sample.failure, ...sample.texts.flatMap(([, texts]) => texts)].join("\n").toLowerCase();
  const make = (tag, parent, text = "", className = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = className;
    parent.append(element);
    return element;
  };
  const number = ({ scores }, place) => {
    const value = scores[place], decimals = Number(columns[place].decimals);
    const small = value && Math.abs(value) < 0.5 / 10 ** decimals;
    return (small ? value.toExponential(0) : value?.toFixed(decimals))?.replace("-", "−") ?? "–";
  };
  const fill = (body, sample) => {
    if (sample.picture) {
      const image = make("img", body, "", "large");
      image.alt = `The image of sample ${sample.id}`;
      image.src = sample.picture;
    }
    for (const [title, texts] of sample.texts) {
      make("h3", body, title);
      for (const text of texts) make("p", body, text, "text");
    }
    const scores = make("dl", body, "", "scores");
    columns.forEach(({ name }, place) => {
      const pair = make("div", scores);
      make("dt", pair, name);
      make("dd", pair, number(sample, place));
    });
  };
  let page = 0;
  const show = () => {
    const wanted = at("q").value.toLowerCase(), sort = at("sort").value, place = parseInt(sort, 10);
    const sign = sort.endsWith("-") ? -1 : 1;
    const shown = samples.filter((sample) => !wanted || textOf(sample).includes(wanted));
    if (sort) {
      // Missing scores come last in both orders.
      const key = ({ scores }) => scores[place] === null ? Infinity : sign * scores[place];
      shown.sort((a, b) => key(a) === key(b) ? 0 : key(a) - key(b));
    }
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(page, pages - 1);
    const [count, all] = [shown, samples].map(({ length }) => length.toLocaleString("en"));
    at("count").textContent = `${count === all ? "" : `${count} of `}${all} samples, page ${page + 1} of ${pages}`;
    at("list").start = page * PAGE + 1;
    at("previous").disabled = page === 0;
    at("next").disabled = page === pages - 1;
    at("list").replaceChildren();
    for (const sample of shown.slice(page * PAGE, (page + 1) * PAGE)) {
      const details = make("details", make("li", at("list")));
      const summary = make("summary", details, "", "clip");
      if (sort) make("b", summary, number(sample, place));
      make("span", summary, ` ${sample.id} `, "muted");
      if (sample.failure) make("strong", summary, `${sample.failure} `);
      summary.append(sample.texts[0]?.[1].join(" / ") ?? "");
      details.addEventListener("toggle", () => fill(make("div", details), sample), { once: true });
    }
  };
  for (const id of ["q", "sort"]) at(id).addEventListener("input", () => { page = 0; show(); });
  at("previous").addEventListener("click", () => { page -= 1; show(); });
  at("next").addEventListener("click", () => { page += 1; show(); });
  show();
})();
