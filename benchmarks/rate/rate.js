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
  const send = async (form) => {
    if (sending) return;
    sending = true;
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        headers: { "x-requested-with": "fetch" },
      });
      const text = await answer.text();
      if (!answer.headers.get("content-type").startsWith("text/html")) { tell(text); return; }
      const next = new DOMParser().parseFromString(text, "text/html");
      document.title = next.title;
      document.querySelector("h1").textContent = next.querySelector("h1").textContent;
      document.querySelector("main").replaceWith(next.querySelector("main"));
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
    send(event.target);
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.matches("input:not([type=radio])")) return;
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
    const scale = among[Math.max(at, 0)];
    const option = scale && [...scale.querySelectorAll("input")].find((one) => one.dataset.key === event.key);
    if (!option || sending) return;
    option.checked = true;
    const left = among.find((one) => !chosen(one));
    if (left) look(left); else send(document.getElementById("answer"));
  });
})();
