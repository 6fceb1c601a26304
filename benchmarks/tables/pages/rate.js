(() => {
  "use strict";
  const scales = () => [...document.querySelectorAll("#answer fieldset")];
  const chosen = (scale) => scale.querySelector("input:checked");
  const look = (scale) => (chosen(scale) ?? scale.querySelector(".first")).focus({ preventScroll: true });
  const held = (among) => among.findIndex((scale) => scale.contains(document.activeElement));
  const tell = (text) => {
    const note = document.getElementById("note");
    note.textContent = text;
    note.hidden = false;
  };
  let sending = false;
  // Replaces the current question by the next one without a page load; the server sends it only after the answer is
  // on disk.
  const send = async (form, by) => {
    if (sending) return;
    sending = true;
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        body: new URLSearchParams(new FormData(form, by)),
        headers: { "x-requested-with": "fetch" },
      });
      const text = await answer.text();
      if (!answer.headers.get("content-type").startsWith("text/html")) { tell(text); return; }
      const next = new DOMParser().parseFromString(text, "text/html");
      document.title = next.title;
      document.querySelector("h1").textContent = next.querySelector("h1").textContent;
      document.querySelector("main").replaceWith(next.querySelector("main"));
      marks();
      scrollTo(0, 0);
      // Do not focus an option: no answer is preselected.
      document.querySelector("main").focus({ preventScroll: true });
    } catch {
      tell("The server does not respond, so this answer is not saved. Send it again, or open the new address if the server was restarted.");
    } finally {
      sending = false;
    }
  };
  addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    event.preventDefault();
    send(event.target, event.submitter);
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.matches("input:not([type=radio]), textarea, select")) return;
    const among = scales(), at = held(among);
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key.startsWith("Arrow") && among.length && at < 0) {
      event.preventDefault();
      look(among[0]);
      return;
    }
    if (step && among.length > 1) {
      event.preventDefault();
      look(among[(at + step + among.length) % among.length]);
      return;
    }
    // Ignore key repeats.
    if (event.repeat) return;
    const undo = document.getElementById("undo");
    if (event.key === "u" && undo && !undo.querySelector("button").disabled) { send(undo); return; }
    const cannot = document.getElementById("cannot");
    if (event.key === "c" && cannot) { send(document.getElementById("answer"), cannot); return; }
    const scale = among[Math.max(at, 0)];
    const option = scale && [...scale.querySelectorAll("input")].find((one) => one.dataset.key === event.key);
    if (!option || sending) return;
    option.checked = true;
    const left = among.find((one) => !chosen(one));
    if (left) look(left); else send(document.getElementById("answer"));
  });
  // Marking errors: a press of two words, or of one twice, chooses what lies between; the hidden field has all marks.
  let marked = [];
  const part = (name) => document.querySelector(`[data-${name}]`);
  const tokens = () => [...document.querySelectorAll(".token")];
  const press = () => tokens().filter((one) => one.getAttribute("aria-pressed") === "true");
  const said = ({ start, end }) => tokens().filter((one) => +one.dataset.start >= start && +one.dataset.end <= end)
    .map((one) => one.textContent).join(" ");
  function marks(next = []) {
    if (!part("words")) return;
    marked = next;
    document.querySelector("[name=spans]").value = JSON.stringify(marked);
    const list = part("list");
    list.replaceChildren(...marked.map((mark, place) => {
      const line = document.createElement("li");
      const remove = document.createElement("button");
      [remove.type, remove.className, remove.textContent] = ["button", "button", "Remove"];
      remove.addEventListener("click", () => marks(marked.filter((_, at) => at !== place)));
      line.append(`“${said(mark)}”: ${mark.category}, ${mark.severity} `, remove);
      return line;
    }));
    for (const one of tokens()) {
      one.setAttribute("aria-pressed", "false");
      one.classList.toggle("wrong", marked.some(({ start, end }) => +one.dataset.start >= start && +one.dataset.end <= end));
    }
    part("mark").hidden = true;
  }
  addEventListener("click", (event) => {
    const token = event.target.closest(".token");
    if (token) {
      const all = tokens();
      const before = press();
      const places = [token, ...(before.length > 1 ? [] : before)].map((one) => all.indexOf(one));
      const [first, last] = [Math.min(...places), Math.max(...places)];
      all.forEach((one, at) => one.setAttribute("aria-pressed", String(first <= at && at <= last)));
      part("mark").hidden = before.length !== 1;
      part("text").textContent = press().map((one) => one.textContent).join(" ");
    }
    if (event.target.closest("[data-add]")) {
      const chosen = press();
      const [start, end] = [Number(chosen[0].dataset.start), Number(chosen.at(-1).dataset.end)];
      marks([...marked, { start, end, category: part("category").value, severity: part("severity").value }]);
    }
  });
  marks();
})();
