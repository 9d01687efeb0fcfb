"use strict";

// A column's head sorts its table by the column's numbers, or else its texts: up, down, then as recorded.
function key(cell) {
  return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
}

function compare(one, other, sign) {
  if (one === "" || other === "") return (one === "") - (other === ""); // what is empty comes last, up or down
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return sign * (typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true }));
}

const next = { none: "ascending", ascending: "descending", descending: "none" };
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const recorded = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = next[head.getAttribute("aria-sort") ?? "none"];
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      if (order !== "none") head.setAttribute("aria-sort", order);
      const sign = { none: 0, ascending: 1, descending: -1 }[order];
      const values = new Map(recorded.map((row) => [row, key(row.cells[column])]));
      body.append(...(sign ? [...recorded].sort((a, b) => compare(values.get(a), values.get(b), sign)) : recorded));
    });
  });
}

// a picture that is wider than the page is shrunk until it is chosen, then scrolls in its own box
for (const picture of document.querySelectorAll(".picture")) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", "false");
  button.append(...picture.childNodes);
  picture.append(button);
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
  });
}

// a link to what is folded opens it; on a narrow page the contents, which come first there, are folded at the start
const contents = document.getElementById("contents");
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target?.closest("details:not([open])");
  if (!folded) return;
  folded.open = true;
  target.scrollIntoView();
}
if (!matchMedia("(min-width: 75rem)").matches) contents.open = false;
document.querySelector(".up").addEventListener("click", () => (contents.open = true));
addEventListener("hashchange", reveal);
reveal();

// on paper nothing can be opened
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
