async (options) => {
  const looks = new Map();
  // What an element looks like: how it and what it lies in are drawn.
  const look = (one) => {
    if (!one) return "";
    if (!looks.has(one)) {
      const drawn = getComputedStyle(one);
      const own = ["color", "fill", "backgroundColor", "backgroundImage", "opacity", "fontSize", "fontWeight",
        "textDecorationLine", "textShadow", "display", "position"].map((key) => drawn[key]);
      looks.set(one, [look(one.parentElement), one.tagName, one.className.baseVal ?? one.className, ...own].join("|"));
    }
    return looks.get(one);
  };
  const counts = new Map();
  const include = [...document.body.querySelectorAll("*")].filter((one) => {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) return false;
    counts.set(look(one), (counts.get(look(one)) ?? 0) + 1);
    return counts.get(look(one)) <= 2;
  });
  const run = await axe.run({ include }, { resultTypes: ["violations"], preload: false, ...options });
  return run.violations.map((one) => [one.id, one.nodes[0].html]);
}
