(() => {
  "use strict";
  const form = document.getElementById("answer");
  const undo = document.getElementById("undo");
  let sent = false;
  const send = (one) => { if (!sent) { sent = true; one.submit(); } };
  for (const one of [form, undo]) {
    one?.addEventListener("submit", (event) => { if (sent) event.preventDefault(); sent = true; });
  }
  const scales = form ? [...form.querySelectorAll("fieldset")] : [];
  const chosen = (scale) => scale.querySelector("input:checked");
  const look = (scale) => (chosen(scale) ?? scale.querySelector(".first")).focus({ preventScroll: true });
  const held = () => scales.findIndex((scale) => scale.contains(document.activeElement));
  if (scales.length) look(scales[0]);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.matches("input:not([type=radio]), textarea, select")) return;
    // A key that is held down answers once.
    if (event.repeat) { event.preventDefault(); return; }
    if (event.key === "u" && undo && !undo.querySelector("button").disabled) { event.preventDefault(); send(undo); return; }
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && scales.length > 1 && held() >= 0) {
      event.preventDefault();
      look(scales[(held() + step + scales.length) % scales.length]);
      return;
    }
    const scale = scales[Math.max(held(), 0)];
    const option = scale && [...scale.querySelectorAll("input")].find((one) => one.dataset.key === event.key);
    if (!option) return;
    event.preventDefault();
    option.checked = true;
    const left = scales.find((one) => !chosen(one));
    if (left) look(left); else send(form);
  });
})();
