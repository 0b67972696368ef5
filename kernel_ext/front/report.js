// A card comes as HTML that can be read as it is. This adds tabs, live pictures and links between
// lines, nodes, guards and kernel text. One function, two mounts: the script inside the output, and the widget.

function mount(root, hooks) {
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
  const home = scope.head || scope;
  if (css && !scope.querySelector("style[data-dj]")) {
    const style = make("style", { "data-dj": "" }, css);
    home.appendChild(style);
  }

  // Pictures become part of the page, so that their boxes can be linked and follow the theme.
  for (const img of all("img.dj-pic")) {
    const bytes = Uint8Array.from(atob(img.src.split(",")[1]), (c) => c.charCodeAt(0));
    const svg = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml").documentElement;
    if (svg.nodeName !== "svg") continue;
    for (const style of all("style", svg)) style.remove();
    svg.setAttribute("role", "listbox");
    svg.setAttribute("aria-label", img.alt);
    for (const g of all(".dj-node", svg)) {
      g.setAttribute("role", "option");
      g.setAttribute("aria-label", g.querySelector("title").textContent);
      g.setAttribute("tabindex", "-1");
    }
    img.replaceWith(document.importNode(svg, true));
  }

  // Folds become tabs.
  const folds = all("details.dj-tab").filter((el) => el.closest(".dj-report") === root);
  const bar = make("div", { role: "tablist", class: "dj-tabs", "aria-label": root.dataset.name || "report" });
  const panels = {};
  folds.forEach((el) => {
    const name = el.dataset.tab;
    const title = el.querySelector("summary").textContent;
    const tab = make("button", { role: "tab", type: "button", id: `${id}-t-${name}`, "aria-controls": `${id}-p-${name}` }, title);
    const panel = make("div", { role: "tabpanel", id: `${id}-p-${name}`, "aria-labelledby": tab.id, class: "dj-panel", tabindex: "0" });
    Array.from(el.childNodes).forEach((child) => child.nodeName !== "SUMMARY" && panel.appendChild(child));
    panels[name] = { tab, panel };
    bar.appendChild(tab);
    el.replaceWith(panel);
  });
  const names = Object.keys(panels);
  const select = (name, focus) => {
    if (!panels[name]) return;
    for (const other of names) {
      const on = other === name;
      panels[other].panel.hidden = !on;
      panels[other].tab.setAttribute("aria-selected", on);
      panels[other].tab.tabIndex = on ? 0 : -1;
    }
    if (focus) panels[name].tab.focus();
    root.dataset.tab = name;
    if (hooks.tab) hooks.tab(name);
  };
  names.forEach((name, i) => {
    panels[name].tab.addEventListener("click", () => select(name));
    panels[name].tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const to = step ? names[(i + step + names.length) % names.length]
        : { Home: names[0], End: names[names.length - 1] }[event.key];
      if (to) { select(to, true); event.preventDefault(); }
    });
  });
  if (names.length) {
    const row = make("div", { class: "dj-bar" });
    row.appendChild(bar);
    root.insertBefore(row, panels[names[0]].panel);
    const both = make("button", { type: "button", class: "dj-both", "aria-pressed": "false" }, "side by side");
    both.addEventListener("click", () => {
      const on = root.classList.toggle("dj-wide");
      both.setAttribute("aria-pressed", on);
    });
    row.appendChild(both);
    select(root.dataset.tab || names[0]);
  }

  // Lists: one stop for Tab, arrows inside.
  const lists = all(".dj-rows, svg.dj-svg");
  for (const list of lists) {
    const items = all(".dj-item, .dj-node", list);
    if (!items.length) { list.tabIndex = 0; continue; }
    if (list.classList.contains("dj-rows")) {
      list.setAttribute("role", "listbox");
      list.setAttribute("aria-label", list.title || "lines");
      list.removeAttribute("title");
      for (const child of list.children) child.setAttribute("role", child.matches(".dj-item") ? "option" : "presentation");
    }
    items.forEach((item, i) => {
      item.setAttribute("tabindex", i ? "-1" : "0");
      item.setAttribute("aria-selected", "false");
      item.addEventListener("keydown", (event) => {
        const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: items.length - 1 }[event.key];
        if (to === undefined || !items[to]) return;
        items[i].setAttribute("tabindex", "-1");
        items[to].setAttribute("tabindex", "0");
        items[to].focus();
        event.preventDefault();
      });
    });
  }

  // Links: what has a line, a node or a kernel in common.
  const linked = all("[data-l], [data-n]").filter((el) => el.closest(".dj-report") === root);
  const has = (el, key, value) => (el.getAttribute(key) || "").split(" ").includes(value);
  const related = (el) => {
    const lines = (el.getAttribute("data-l") || "").split(" ").filter(Boolean);
    return linked.filter((other) => {
      if (other === el) return true;
      if (el.hasAttribute("data-n") && other.hasAttribute("data-n")) return false;
      return lines.some((line) => has(other, "data-l", line));
    });
  };
  let pinned = null;
  const light = (el) => {
    for (const other of all(".dj-lit")) other.classList.remove("dj-lit");
    for (const from of [pinned, el]) if (from) for (const other of related(from)) other.classList.add("dj-lit");
  };
  const pin = (el) => {
    if (pinned) pinned.setAttribute("aria-selected", "false");
    pinned = pinned === el ? null : el;
    if (pinned) pinned.setAttribute("aria-selected", "true");
    light(pinned);
    if (pinned) show(pinned);
    if (hooks.selected) {
      const line = pinned && pinned.getAttribute("data-l");
      hooks.selected(line ? Number(line.split(" ")[0]) : 0, (pinned && pinned.getAttribute("data-n")) || "");
    }
  };
  const show = (el) => {  // bring what is linked into view in the other panels, without moving the page
    for (const list of all(".dj-rows, .dj-scroll")) {
      if (list.contains(el)) continue;
      const other = list.querySelector(".dj-lit");
      if (!other) continue;
      const a = list.getBoundingClientRect(), b = other.getBoundingClientRect();
      if (b.top < a.top || b.bottom > a.bottom) list.scrollTop += b.top - a.top - a.height / 3;
      if (list.matches(".dj-scroll") && (b.left < a.left || b.right > a.right)) list.scrollLeft += b.left - a.left - 40;
    }
  };
  for (const el of linked) {
    el.addEventListener("mouseenter", () => light(el));
    el.addEventListener("mouseleave", () => light(pinned));
    if (!el.matches(".dj-item, .dj-node")) continue;
    el.addEventListener("focus", () => light(el));
    el.addEventListener("blur", () => light(pinned));
    el.addEventListener("click", () => pin(el));
    el.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { pin(el); event.preventDefault(); }
    });
  }
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && pinned) pin(pinned);
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();  // not a command for the notebook
  });
  return {
    select,
    pinLine: (line) => {
      const el = root.querySelector(`.dj-item[data-verdict][data-l="${line}"]`);
      if (el && el !== pinned) pin(el);
      if (!el && pinned) pin(pinned);
    },
    pinNode: (name) => {
      const el = name && root.querySelector(`.dj-node[data-n="${CSS.escape(name)}"]`);
      if (el && el !== pinned) pin(el);
    },
  };
}

// ---- the widget ----
export default {
  render({ model, el }) {
    const draw = () => {
      el.innerHTML = model.get("html");
      const put = (name, value) => {
        if (model.get(name) !== value) { model.set(name, value); model.save_changes(); }
      };
      const root = el.querySelector(".dj-report");
      if (root) root.dataset.tab = model.get("tab") || root.dataset.tab;
      return mount(root, {
        tab: (name) => put("tab", name),
        selected: (line, node) => { put("selected_line", line); put("selected_node", node); },
      });
    };
    let card = draw();
    model.on("change:html", () => { card = draw(); });
    model.on("change:tab", () => card && card.select(model.get("tab")));
    model.on("change:selected_line", () => card && card.pinLine(model.get("selected_line")));
    model.on("change:selected_node", () => card && card.pinNode(model.get("selected_node")));
  },
};
