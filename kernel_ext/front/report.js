// A card comes as HTML that can be read as it is. This adds tabs, live graphs and links between lines, nodes, guards
// and kernel text. One function, two mounts: the script inside the output, and the widget.
// data: what belongs into the gaps of the HTML (`fill`), and the graphs (`graphs`); see payload.py.

function mount(root, data, hooks) {
  if (!root || root.dataset.live) return null;
  root.dataset.live = "1";
  hooks = hooks || {};
  const all = (selector, from) => Array.from((from || root).querySelectorAll(selector));
  const make = (name, attributes, text) => {
    const el = document.createElement(name);
    for (const key in attributes) el.setAttribute(key, attributes[key]);
    if (text !== undefined) el.textContent = text;
    return el;
  };
  const id = root.id || "dj" + Math.random().toString(36).slice(2);
  const css = typeof REPORT_CSS === "string" ? REPORT_CSS : "";
  const scope = root.getRootNode();
  if (css && !scope.querySelector("style[data-dj]")) (scope.head || scope).appendChild(make("style", { "data-dj": "" }, css));

  // ---- folds become tabs ----
  const bar = make("div", { role: "tablist", class: "dj-tabs", "aria-label": root.dataset.name || "report" });
  const panels = {};
  for (const el of all("details.dj-tab").filter((el) => el.closest(".dj-report") === root)) {
    const name = el.dataset.tab;
    const tab = make("button", { role: "tab", type: "button", id: `${id}-t-${name}`, "aria-controls": `${id}-p-${name}` },
      el.querySelector("summary").textContent);
    const panel = make("div", { role: "tabpanel", id: `${id}-p-${name}`, "aria-labelledby": tab.id, class: "dj-panel", tabindex: "0", "data-title": tab.textContent });
    for (const child of Array.from(el.childNodes)) if (child.nodeName !== "SUMMARY") panel.appendChild(child);
    panels[name] = { tab, panel };
    bar.appendChild(tab);
    el.replaceWith(panel);
  }
  const names = Object.keys(panels);
  const beside = { source: "kernels", graph: "source", guards: "source", kernels: "source" };
  const select = (name, focus) => {
    if (!panels[name]) return;
    const second = root.classList.contains("dj-wide") && beside[name];
    for (const other of names) {
      const on = other === name;
      panels[other].panel.hidden = !on && other !== second && !root.dataset.open;
      panels[other].panel.style.order = on ? 0 : 1;
      panels[other].panel.classList.toggle("dj-whole", !second);
      panels[other].tab.setAttribute("aria-selected", on);
      panels[other].tab.tabIndex = on ? 0 : -1;
    }
    if (focus) panels[name].tab.focus();
    root.dataset.tab = name;
    if (hooks.tab) hooks.tab(name);
    for (const graph of graphs) graph.shown();
  };
  const graphs = [];
  names.forEach((name, i) => {
    panels[name].tab.addEventListener("click", () => select(name));
    panels[name].tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const to = step ? names[(i + step + names.length) % names.length] : { Home: names[0], End: names[names.length - 1] }[event.key];
      if (to) { select(to, true); event.preventDefault(); }
    });
  });
  if (names.length) {
    const row = make("div", { class: "dj-bar" });
    const body = make("div", { class: "dj-body" });
    root.insertBefore(row, panels[names[0]].panel);
    row.after(body);
    for (const name of names) body.appendChild(panels[name].panel);
    const both = make("button", { type: "button", class: "dj-both", title: "what belongs together, side by side" }, "side by side");
    const widen = (on) => {
      root.classList.toggle("dj-wide", on);
      both.setAttribute("aria-pressed", on);
      select(root.dataset.tab);
    };
    both.addEventListener("click", () => widen(!root.classList.contains("dj-wide")));
    row.append(bar, both);
    root.dataset.tab = panels[root.dataset.tab] ? root.dataset.tab : names[0];
    widen(root.clientWidth > 960 && all(".dj-kernel").length > 0 && !root.dataset.open);
  }

  // ---- lists: one stop for Tab, arrows inside ----
  const listed = (from) => {
    for (const row of all(".dj-code > [data-l]", from)) row.classList.add("dj-item");
    for (const list of all(".dj-rows, .dj-code", from)) {
      const items = all(".dj-item", list);
      if (!items.length || list.getAttribute("role")) { list.tabIndex = 0; continue; }
      list.setAttribute("role", "listbox");
      list.setAttribute("aria-label", list.title || "lines");
      list.removeAttribute("title");
      for (const child of list.children) child.setAttribute("role", child.matches(".dj-item") ? "option" : "presentation");
      items.forEach((item, i) => {
        item.tabIndex = i ? -1 : 0;
        item.setAttribute("aria-selected", "false");
        item.addEventListener("keydown", (event) => {
          const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: items.length - 1 }[event.key];
          if (to === undefined || !items[to]) return;
          items[i].tabIndex = -1;
          items[to].tabIndex = 0;
          items[to].focus();
          event.preventDefault();
        });
      });
    }
  };

  // ---- links: what has a line, a node or a kernel in common ----
  const known = new WeakMap();
  const facts = (el) => {
    if (!known.has(el)) {
      const words = (name, from) => new Set(((from || el).getAttribute(name) || "").split(" ").filter(Boolean));
      const home = el.closest("[data-g]");
      known.set(el, { l: words("data-l"), n: words("data-n"), k: words("data-k"), g: home ? words("data-g", home) : new Set() });
    }
    return known.get(el);
  };
  const meets = (a, b) => { for (const x of a) if (b.has(x)) return true; return false; };
  const related = (a, b) => {
    if (a.n.size && b.n.size) return meets(a.n, b.n) && (!a.g.size || !b.g.size || meets(a.g, b.g));
    if (!a.l.size || !b.l.size) return meets(a.k, b.k);
    return meets(a.l, b.l);
  };
  const LINKED = ".dj-item, .dj-node, .dj-kernel";
  let pinned = null;
  const light = (el) => {
    for (const other of all(".dj-lit")) other.classList.remove("dj-lit");
    for (const from of [pinned, el]) {
      if (!from || !root.contains(from)) continue;
      for (const other of all(LINKED)) if (other === from || related(facts(from), facts(other))) other.classList.add("dj-lit");
    }
  };
  const reveal = (el) => {  // bring what is linked into view in the other panels, without moving the page
    for (const fold of all(".dj-kernel.dj-lit > details, .dj-kernel:has(.dj-lit) > details")) if (!fold.contains(el)) fold.open = true;
    for (const list of all(".dj-rows, .dj-scroll, .dj-panel").reverse()) {  // from the inside out
      const other = !list.contains(el) && list.querySelector(".dj-item.dj-lit, .dj-node.dj-lit");
      if (!other) continue;
      const a = list.getBoundingClientRect(), b = other.getBoundingClientRect();
      if (b.top < a.top || b.bottom > a.bottom) list.scrollTop += b.top - a.top - a.height / 3;
      if (list.matches(".dj-scroll") && (b.left < a.left || b.right > a.right)) list.scrollLeft += b.left - a.left - 40;
    }
  };
  const pin = (el) => {
    if (pinned) pinned.setAttribute("aria-selected", "false");
    pinned = pinned === el ? null : el;
    if (pinned) pinned.setAttribute("aria-selected", "true");
    light(pinned);
    if (pinned) reveal(pinned);
    if (!hooks.selected) return;
    const said = pinned ? facts(pinned) : { l: [], n: [] };
    hooks.selected(Number([...said.l][0] || 0), (pinned && pinned.matches(".dj-node") && [...said.n][0]) || "");
  };
  const at = (event) => {
    const el = event.target.closest && event.target.closest(LINKED);
    return el && el.closest(".dj-report") === root ? el : null;
  };
  root.addEventListener("mouseover", (event) => { const el = at(event); if (el) light(el); });
  root.addEventListener("mouseout", (event) => { if (at(event)) light(pinned); });
  root.addEventListener("focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));  // JupyterLab's
  root.addEventListener("focusin", (event) => { const el = at(event); if (el && el === event.target) light(el); });
  root.addEventListener("focusout", () => light(pinned));
  root.addEventListener("click", (event) => {
    const el = at(event);
    if (el && el.matches(".dj-item, .dj-node:not(.dj-group)")) pin(el);
  });
  root.addEventListener("keydown", (event) => {
    const el = event.target;
    if ((event.key === "Enter" || event.key === " ") && el.matches && el.matches(".dj-item, .dj-node:not(.dj-group)")) {
      pin(el);
      event.preventDefault();
    }
    if (event.key === "Escape" && pinned) pin(pinned);
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();  // not a command for the notebook
  });

  const most = Number(root.dataset.most || 40);

  // ---- graphs: boxes in boxes, at any level, opened and searched ----
  const TINTS = ["31,111,235", "137,87,229", "191,75,138", "180,120,0", "27,124,131", "207,74,20", "84,125,20", "90,90,200"];
  const esc = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const GAP = 16, DROP = 24, HEAD = 22, TALL = 34;

  const grown = (data, level) => {  // the tree of boxes of a level
    const top = { title: "", parts: [], home: null, open: true, path: "" };
    const boxes = new Map();
    const inside = (home, key, title) => {
      const path = `${home.path}/${key}`;
      if (!boxes.has(path)) {
        const box = { title, parts: [], home, open: false, path };
        boxes.set(path, box);
        home.parts.push(box);
      }
      return boxes.get(path);
    };
    data.nodes.forEach(([name, op, shape, line, where, kernels, module], i) => {
      let home = top;
      if (level === "module") for (const part of module ? module.split(/\.(?!\d)/) : []) home = inside(home, part, part);
      if (level === "line") {
        home = inside(home, line, line ? `${line}  ${data.lines[line] || ""}` : "elsewhere");
        if (where) home = inside(home, where, where);
      }
      if (level === "kernel" && kernels) home = inside(home, kernels, kernels);
      home.parts.push({ title: op, leaf: i, home, path: `#${i}` });
    });
    const settle = (box) => {
      if (box.leaf !== undefined) { box.all = [box.leaf]; box.shape = data.nodes[box.leaf][1]; return box; }
      box.parts = alike(box.parts.map(settle), box);
      box.all = box.parts.flatMap((part) => part.all);
      box.shape = box.parts.map((part) => part.shape).join();
      if (box.parts.length === 1 && box.home) {  // a box in a box says no more than one
        const only = box.parts[0];
        if (only.leaf === undefined) only.title = level === "module" ? `${box.title}.${only.title}` : `${box.title} · ${only.title}`;
        only.home = box.home;
        return only;
      }
      return box;
    };
    const alike = (parts, home) => {  // from the second of three or more of one shape on, one box for all
      const found = [];
      for (let i = 0; i < parts.length; ) {
        let end = i + 1;
        while (end < parts.length && parts[end].leaf === undefined && parts[end].shape === parts[i].shape) end++;
        if (end - i > 3 && parts[i].leaf === undefined) {
          const run = parts.slice(i + 1, end);
          const box = { title: `${run[0].title} … ${run[run.length - 1].title}`, same: run.length, parts: run, home, open: false,
            path: `${home.path}/${i}*`, all: run.flatMap((part) => part.all), shape: "*" };
          for (const part of run) part.home = box;
          found.push(parts[i], box);
        } else found.push(...parts.slice(i, end));
        i = end;
      }
      return found;
    };
    return settle(top);
  };

  const placed = (box, data) => {  // sizes and places of everything in an open box
    const owner = new Map();
    box.parts.forEach((part, i) => part.all.forEach((node) => owner.set(node, i)));
    const reads = box.parts.map(() => new Set());
    box.parts.forEach((part, i) => {
      for (const node of part.all) for (const input of data.nodes[node][7]) {
        const from = owner.get(input);
        if (from !== undefined && from !== i) reads[i].add(from);
      }
      if (part.open) placed(part, data);
      else {
        const below = under(part, data);
        part.w = Math.max(40, 18 + Math.max(6.7 * cut(part.title, 36).length, 5.5 * cut(below, 46).length));
        part.h = below ? TALL : 20;
      }
    });
    const order = box.parts.map((_, i) => i).sort((a, b) => Math.min(...box.parts[a].all) - Math.min(...box.parts[b].all));
    const layer = [], rank = new Map(order.map((i, k) => [i, k]));
    for (const i of order) layer[i] = 1 + Math.max(-1, ...[...reads[i]].filter((j) => rank.get(j) < rank.get(i)).map((j) => layer[j]));
    const rows = [];
    for (const i of order) (rows[layer[i]] = rows[layer[i]] || []).push(i);
    const place = [];
    for (const row of rows) {
      const mean = (i) => { const p = [...reads[i]].map((j) => place[j]).filter((p) => p !== undefined); return p.length ? p.reduce((a, b) => a + b) / p.length : 0; };
      row.sort((a, b) => mean(a) - mean(b)).forEach((i, k) => { place[i] = k - (row.length - 1) / 2; });
    }
    const wide = (row) => row.reduce((sum, i) => sum + box.parts[i].w, GAP * (row.length - 1));
    const tall = (row) => Math.max(...row.map((i) => box.parts[i].h));
    const height = rows.reduce((sum, row) => sum + tall(row) + DROP, 0);
    const most = height / Math.max(1, Math.min(6, Math.floor(1100 / Math.max(...rows.map(wide), 1)), Math.ceil(height / 620)));
    let x = 0, y = 0, right = 0, bottom = 0;
    box.lines = [];
    rows.forEach((row, r) => {
      if (y > most + 10) { x = right + 44; y = 0; }
      row.fold = r && y === 0;
      let left = x;
      for (const i of row) {
        Object.assign(box.parts[i], { x: left, y, column: x });
        left += box.parts[i].w + GAP;
      }
      y += tall(row) + DROP;
      right = Math.max(right, left - GAP);
      bottom = Math.max(bottom, y - DROP);
    });
    for (const row of rows) {  // centred in their column
      const column = box.parts[row[0]].column;
      const span = Math.max(...rows.filter((other) => box.parts[other[0]].column === column).map(wide));
      for (const i of row) box.parts[i].x += (span - wide(row)) / 2;
    }
    let around = 0;
    box.parts.forEach((part, i) => reads[i].forEach((j) => {
      const from = box.parts[j], far = layer[i] - layer[j];
      if (from.column === part.column && far === 1) {
        box.lines.push([`M${mid(from)} ${from.y + from.h}C${mid(from)} ${from.y + from.h + 12} ${mid(part)} ${part.y - 12} ${mid(part)} ${part.y}`, `M${mid(part)} ${part.y}l-3 -6h6z`]);
      } else if (from.column === part.column && far > 1) {
        const out = Math.max(from.x + from.w, part.x + part.w) + 12 + Math.min(24, 3 * far);
        around = Math.max(around, out);
        const a = from.y + from.h / 2, b = part.y + part.h / 2;
        box.lines.push([`M${from.x + from.w} ${a}C${out} ${a} ${out} ${b} ${part.x + part.w} ${b}`, `M${part.x + part.w} ${b}l6 -3v6z`]);
      } else if (from.column < part.column) {
        const a = from.y + from.h / 2, b = part.y + part.h / 2;
        box.lines.push([`M${from.x + from.w} ${a}C${from.x + from.w + 24} ${a} ${part.x - 24} ${b} ${part.x} ${b}`, `M${part.x} ${b}l-6 -3v6z`]);
      }
    }));
    box.w = Math.max(right, around, 6.7 * cut(box.title, 36).length) + 2 * GAP;
    box.h = bottom + HEAD + GAP;
  };
  const mid = (box) => Math.round(box.x + box.w / 2);
  const under = (box, data) => {
    if (box.leaf === undefined) return `${box.same ? box.same + " × same shape · " : ""}${box.all.length} operations ▸`;
    const [, , shape, line, , kernels] = data.nodes[box.leaf];
    return [shape, line ? `line ${line}` : "", kernels].filter(Boolean).join(" · ");
  };

  function live(holder, data, index) {
    const leaves = data.nodes.length;
    const levels = ["module", "line", "op", "kernel"].filter((level) => level !== "module" || data.nodes.some((node) => node[6]));
    let level = leaves <= 60 ? "op" : levels[0], tree = null, zoom = 1, hits = [], hit = -1, drawn = false, byPath = {};
    const tools = make("div", { class: "dj-tools" });
    const choose = make("select", { "aria-label": "level" });
    for (const name of levels) choose.append(make("option", { value: name }, name));
    const find = make("input", { type: "search", placeholder: "find", "aria-label": `find in graph ${index}` });
    const count = make("span", { class: "dj-count", "aria-live": "polite" });
    const button = (text, label, act) => {
      const el = make("button", { type: "button", title: label, "aria-label": label }, text);
      el.addEventListener("click", act);
      tools.append(el);
    };
    const scroll = make("div", { class: "dj-scroll", "data-g": index });
    tools.append("level ", choose, find, count);
    const scale = (to) => { zoom = Math.min(4, Math.max(0.1, to)); size(); };
    const fit = () => scale(Math.min(1, (scroll.clientWidth - 8) / (tree.w + GAP)));
    button("−", "zoom out", () => scale(zoom / 1.25));
    button("+", "zoom in", () => scale(zoom * 1.25));
    button("fit", "fit the width", fit);
    button("close all", "close all boxes", () => { build(); draw(); });
    holder.replaceChildren(tools, scroll);

    const build = () => {
      tree = grown(data, level);
      tree.open = true;
      byPath = {};
      const walk = (box) => { byPath[box.path] = box; (box.parts || []).forEach(walk); };
      walk(tree);
      const total = (box) => (box.open ? box.parts.reduce((sum, part) => sum + total(part), 0) : 1);
      if (level === "op" && tree.parts.length > 300) {  // never all at once: runs of operations in their order
        const runs = [];
        for (let i = 0; i < tree.parts.length; i += 60) {
          const parts = tree.parts.slice(i, i + 60);
          const box = { title: `operations ${i + 1} to ${i + parts.length}`, parts, home: tree, open: false, path: `/${i}`, all: parts.flatMap((part) => part.all), shape: "" };
          for (const part of parts) part.home = box;
          byPath[box.path] = box;
          runs.push(box);
        }
        tree.parts = runs;
      }
      const queue = [...tree.parts];  // open while it stays small
      while (queue.length) {
        const box = queue.shift();
        if (!box.parts || box.same) continue;
        box.open = true;
        if (total(tree) > most) { box.open = false; break; }
        queue.push(...box.parts);
      }
    };
    const size = () => {
      const svg = scroll.firstChild;
      if (!svg) return;
      svg.setAttribute("width", Math.ceil((tree.w + GAP) * zoom));
      svg.setAttribute("height", Math.ceil(tree.h * zoom));
    };
    const draw = (focus) => {
      placed(tree, data);
      const out = [];
      const paint = (box, x, y) => {
        for (const [line, head] of box.lines) out.push(`<g transform="translate(${x} ${y})"><path class="e" d="${line}"/><path class="h" d="${head}"/></g>`);
        for (const part of box.parts) {
          const left = x + part.x, top = y + part.y, middle = Math.round(part.w / 2);
          const rows = part.all.map((node) => data.nodes[node]);
          const kernels = [...new Set(rows.flatMap((row) => row[5].split(" ")).filter(Boolean))];
          const tint = kernels.length === 1 && rows.every((row) => row[5]) ? `rgba(${TINTS[kernels[0].slice(1) % 8]},.22)` : "rgba(139,148,158,.1)";
          const below = part.open ? "" : under(part, data);
          const group = part.leaf === undefined;
          out.push(`<g class="dj-node${group ? " dj-group" : ""}${part.open ? " dj-open" : ""}" role="option" tabindex="-1" data-p="${esc(part.path)}" transform="translate(${left} ${top})" aria-label="${esc(`${part.title}${below ? ": " + below : ""}${part.open ? ", open" : ""}`)}">` +
            `<title>${esc([part.title, below, ...(group ? [] : [rows[0][0], rows[0][4], rows[0][6]])].filter(Boolean).join("\n"))}</title>` +
            `<rect class="k" width="${part.w}" height="${part.h}" rx="${part.open ? 6 : 4}"/><rect class="b" width="${part.w}" height="${part.h}" rx="${part.open ? 6 : 4}" fill="${part.open ? "rgba(139,148,158,.06)" : tint}"/>` +
            (part.open ? `<text x="8" y="15">▾ ${esc(cut(part.title, 60))}</text>`
              : `<text x="${middle}" y="14" text-anchor="middle">${esc(cut(part.title, 36))}</text>` + (below ? `<text class="s" x="${middle}" y="27" text-anchor="middle">${esc(cut(below, 46))}</text>` : "")) + "</g>");
          if (part.open) paint(part, left + GAP, top + HEAD + 4);
        }
      };
      paint(tree, 8, 8);
      const w = tree.w + GAP, h = tree.h;
      scroll.innerHTML = `<svg xmlns="http://www.w3.org/2000/svg" class="dj-svg" viewBox="0 0 ${w} ${h}" role="listbox" aria-label="${esc(holder.dataset.title || "graph")}">${out.join("")}</svg>`;
      size();
      for (const el of all(".dj-node", scroll)) {
        const box = byPath[el.dataset.p];
        box.el = el;
        const rows = box.all.map((node) => data.nodes[node]);
        known.set(el, box.open ? { l: new Set(), n: new Set(), k: new Set(), g: new Set() } : {
          l: new Set(rows.map((row) => String(row[3])).filter((line) => line !== "0")), n: new Set(rows.map((row) => row[0])),
          k: new Set(rows.flatMap((row) => row[5].split(" ")).filter(Boolean)), g: new Set([String(index)]) });
      }
      const first = (focus && byPath[focus] && byPath[focus].el) || scroll.querySelector(".dj-node");
      if (first) first.setAttribute("tabindex", "0");
      if (focus && first) first.focus({ preventScroll: true });
      mark();
      light(pinned);
    };
    const toggle = (box) => {
      box.open = !box.open;
      draw(box.path);
    };
    const mark = () => {
      for (const el of all(".dj-hit", scroll)) el.classList.remove("dj-hit");
      for (const node of hits) for (let box = byPath[`#${node}`]; box; box = box.home) if (box.el && scroll.contains(box.el) && !box.open) { box.el.classList.add("dj-hit"); break; }
    };
    const go = (to) => {  // to the next hit: its boxes open
      if (!hits.length) return;
      hit = (to + hits.length) % hits.length;
      for (let box = byPath[`#${hits[hit]}`].home; box; box = box.home) box.open = true;
      draw();
      const el = byPath[`#${hits[hit]}`].el, a = scroll.getBoundingClientRect(), b = el.getBoundingClientRect();
      scroll.scrollTop += b.top - a.top - a.height / 2;
      scroll.scrollLeft += b.left - a.left - a.width / 2;
      for (const other of all(".dj-now", scroll)) other.classList.remove("dj-now");
      el.classList.add("dj-now");
      light(el);
      count.textContent = `${hit + 1}/${hits.length}`;
    };
    find.addEventListener("input", () => {
      const text = find.value.trim().toLowerCase();
      hits = text ? data.nodes.flatMap((node, i) => ([node[0], node[1], node[2], node[5], node[6], `line ${node[3]}`].some((word) => String(word).toLowerCase().includes(text)) ? [i] : [])) : [];
      hit = -1;
      count.textContent = text ? `${hits.length}` : "";
      mark();
    });
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { go(event.shiftKey ? hit - 1 : hit + 1); event.preventDefault(); }
      if (event.key === "Escape") { find.value = ""; hits = []; count.textContent = ""; mark(); }
    });
    choose.addEventListener("change", () => { level = choose.value; build(); draw(); scroll.scrollTo(0, 0); });
    scroll.addEventListener("click", (event) => {
      const el = event.target.closest(".dj-group");
      if (el) toggle(byPath[el.dataset.p]);
    });
    scroll.addEventListener("keydown", (event) => {
      const el = event.target.closest(".dj-node");
      const keys = { "+": () => scale(zoom * 1.25), "=": () => scale(zoom * 1.25), "-": () => scale(zoom / 1.25), f: fit, "/": () => find.focus() };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); return; }
      if (!el) return;
      if ((event.key === "Enter" || event.key === " ") && el.matches(".dj-group")) { toggle(byPath[el.dataset.p]); event.preventDefault(); }
      const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
      if (!way) return;
      event.preventDefault();
      const from = el.getBoundingClientRect();
      let best = null, least = Infinity;
      for (const other of all(".dj-node", scroll)) {
        const to = other.getBoundingClientRect();
        const dx = to.left + to.width / 2 - from.left - from.width / 2, dy = to.top - from.top;
        const along = dx * way[0] + dy * way[1], across = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
        if (other !== el && along > 3 && along + 3 * across < least) { least = along + 3 * across; best = other; }
      }
      if (!best) return;
      el.setAttribute("tabindex", "-1");
      best.setAttribute("tabindex", "0");
      best.focus();
    });
    build();
    choose.value = level;
    return {
      shown: () => {
        if (drawn || !scroll.clientWidth) return;
        drawn = true;
        draw();
        if (tree.w > scroll.clientWidth) scale(Math.max(0.6, (scroll.clientWidth - 8) / (tree.w + GAP)));
      },
      node: (name) => {
        const i = data.nodes.findIndex((node) => node[0] === name);
        if (i < 0) return null;
        for (let box = byPath[`#${i}`].home; box; box = box.home) box.open = true;
        draw();
        return byPath[`#${i}`].el;
      },
    };
  }

  for (const gap of all("[data-fill]")) gap.innerHTML = data.fill[gap.dataset.fill];
  for (const holder of all(".dj-graph")) {
    const found = data.graphs[holder.dataset.graph];
    if (found) graphs.push(live(holder, found, holder.dataset.graph));
  }
  listed();
  for (const graph of graphs) graph.shown();
  return {
    select,
    pinLine: (line) => {
      const el = root.querySelector(`.dj-item[data-verdict][data-l="${line}"]`);
      if (el && el !== pinned) pin(el);
      if (!el && pinned) pin(pinned);
    },
    pinNode: (name) => {
      const el = name && graphs.map((graph) => graph.node(name)).find(Boolean);
      if (el && el !== pinned) pin(el);
    },
  };
}

// ---- the widget ----
const inflate = (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).json();
};
export default {
  async render({ model, el }) {
    const draw = async () => {
      const data = await inflate(model.get("packed"));
      el.innerHTML = model.get("html");
      const put = (name, value) => {
        if (model.get(name) !== value) { model.set(name, value); model.save_changes(); }
      };
      const root = el.querySelector(".dj-report");
      if (root) root.dataset.tab = model.get("tab") || root.dataset.tab;
      return mount(root, data, {
        tab: (name) => put("tab", name),
        selected: (line, node) => { put("selected_line", line); put("selected_node", node); },
      });
    };
    let card = await draw();
    model.on("change:html", async () => { card = await draw(); });
    model.on("change:tab", () => card && card.select(model.get("tab")));
    model.on("change:selected_line", () => card && card.pinLine(model.get("selected_line")));
    model.on("change:selected_node", () => card && card.pinNode(model.get("selected_node")));
  },
};
