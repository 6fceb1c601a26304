() => {
  const found = [];
  for (const one of document.querySelectorAll("table"))
    if (!one.caption?.textContent.trim()) found.push("a table without a caption");
  for (const one of document.querySelectorAll("th")) if (!one.scope) found.push(`no scope: ${one.textContent}`);
  for (const one of document.querySelectorAll("svg:not([aria-hidden=true])"))
    if (one.getAttribute("role") !== "img" || !one.querySelector("title, desc")) found.push("a drawing without a text");
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.filter((other) => other === id).length > 1) found.push(`id twice: ${id}`);
  for (const one of document.querySelectorAll("[aria-labelledby]"))
    for (const id of one.getAttribute("aria-labelledby").split(" ")) if (!ids.includes(id)) found.push(`no ${id}`);
  for (const one of document.querySelectorAll('a[href^="#"]'))
    if (!ids.includes(decodeURIComponent(one.hash.slice(1)))) found.push(`dead link: ${one.hash}`);
  return found;
}
