// The state of the page, what shows it, and what changes it. The state is in the address.

class Page {
  constructor(model) {
    this.model = model;
    const last = model.changed[model.changed.length - 1] ?? 0;
    this.state = { pass: last, base: -1, kernel: this.firstKernel(), nodes: new Set(), line: 0, tab: "times", all: false, flame: "" };
    byId("title").textContent = model.title;
    byId("target").textContent = model.target;
    const pick = (row, pane) => this.pickLine(row, pane);
    this.panes = Object.fromEntries(["relax", "tir", "llvm", "asm"].map((id) => [id, new TextPane(id, model, pick)]));
    this.charts = new Charts(model, (name) => this.pickKernel(name), (nodes) => this.pickNodes(nodes), (box) => this.pickFlame(box));
    this.graph = new Graph(model, (nodes) => this.pickNodes(nodes, "graph"));
    this.controls();
    this.keys();
    this.search();
    this.read();
    window.addEventListener("hashchange", () => location.hash.slice(1) !== this.hash && this.read());
  }

  firstKernel() {
    const kernels = this.model.kernels.filter((k) => !k.graph);
    const first = kernels.sort((a, b) => b.us - a.us || (b.flops ?? 0) - (a.flops ?? 0))[0] ?? this.model.kernels[0];
    return first?.name ?? "";
  }

  // ---- what is chosen

  set(changes, reveal = "") {
    Object.assign(this.state, changes);
    this.show(reveal);
    this.write();
  }

  pickNodes(nodes, from = "other") {
    const chosen = new Set(nodes);
    const kernels = this.model.kernelsOf(chosen);
    const kernel = kernels.some((k) => k.name === this.state.kernel) ? this.state.kernel : kernels[0]?.name ?? this.state.kernel;
    this.set({ nodes: chosen, line: 0, kernel }, from);
  }

  pickKernel(name) {
    const kernel = this.model.kernelOf.get(name);
    this.set({ kernel: name, nodes: new Set(kernel ? this.model.members[kernel.set] : []), line: 0 }, "other");
  }

  pickFlame({ path, nodes, kernel }) {
    this.state.flame = path;
    this.pickNodes(path ? nodes : []);
    if (this.model.kernelOf.has(kernel)) this.set({ kernel }, "other");
  }

  pickLine(row, pane) {
    const kernel = this.model.kernelOf.get(this.state.kernel);
    const lowered = pane.kind === "llvm" || pane.kind === "asm" || (pane.kind === "tir" && row.id === kernel?.tir);
    const line = lowered ? row.tir : 0;
    const own = this.model.members[row.set];
    const whole = pane.text >= 0 ? this.model.texts[pane.text].whole : 0;
    const nodes = own.size ? own : lowered && line ? this.model.members[whole] : own;
    if (pane.kind === "relax" || !lowered) return this.pickNodes([...nodes], pane.kind);
    this.set({ nodes: new Set(nodes), line }, pane.kind);
  }

  // ---- showing

  show(from) {
    const { model, state } = this;
    const kernel = model.kernelOf.get(state.kernel);
    const relaxPass = state.pass <= model.lastRelax ? state.pass : model.lastRelax;
    const relax = model.relaxAt(relaxPass);
    const compare = state.base >= 0 && state.base !== state.pass;
    const baseRelax = compare ? model.relaxAt(Math.min(state.base, model.lastRelax)) : -1;
    const passes = model.passes;
    const after = (k) => (k ? `after ${passes[k].name}` : "as imported");
    this.panes.relax.show(relax, (compare ? `${after(Math.min(state.base, model.lastRelax))} → ` : "") + after(relaxPass), baseRelax, "no graph program");
    const tir = state.kernel ? model.textAt(state.kernel, state.pass) : -1;
    this.panes.tir.show(tir, (compare ? `${after(state.base)} → ` : "") + after(state.pass), compare ? model.textAt(state.kernel, state.base) : -1, "no kernel chosen");
    const none = "no machine code: explore an executable";
    this.panes.llvm.show(kernel?.llvm ?? -1, kernel ? kernel.name : "", -1, none);
    this.panes.asm.show(kernel?.asm ?? -1, kernel ? `${kernel.name}${kernel.us ? ` · ${micro(kernel.us)}` : ""}` : "", -1, none);
    const exact = (row) => state.line > 0 && row.tir === state.line;
    const here = passes[state.pass].name;
    for (const [id, pane] of Object.entries(this.panes)) {
      const code = id === "llvm" || id === "asm";
      pane.why = id === "relax" ? (row) => this.reasons(row, here) : null;
      pane.mark(state, code ? exact : id === "tir" ? (row) => exact(row) && row.id === kernel?.tir : null);
      if (from && from !== id) pane.reveal();
    }
    this.graph.mark(state.nodes);
    if (from && from !== "graph") this.graph.reveal(state.nodes);
    this.charts.mark(state);
    this.showPasses();
    this.showKernels();
    this.showSelection();
    this.showTab();
  }

  reasons(row, pass) {
    if (row.set === 0) return "";
    const nodes = this.model.members[row.set];
    return this.model.notes.filter((note) => note.pass === pass && this.model.touches(note.set, nodes))
      .slice(0, 4).map((note) => `${note.kind} ${note.subject}\n${note.text}`).join("\n\n");
  }

  showPasses() {
    const { model, state } = this;
    const list = byId("passes");
    if (this.listed !== state.all) {
      this.listed = state.all;
      this.rows = model.passes.map((pass, k) => ({ pass, k })).filter(({ pass, k }) => state.all || k === 0 || (pass.changed && !pass.group) || pass.error);
      list.replaceChildren(...this.rows.map(({ pass, k }) => make("li", { role: "option", id: `pass-${k}`, "data-pass": k, title: `${pass.name}: ${pass.ms.toFixed(2)} ms`,
        class: [pass.group ? "group" : "", pass.changed ? "changed" : "", pass.error ? "error" : ""].filter(Boolean).join(" ") },
        make("span", { style: `padding-left:${state.all ? pass.depth * 8 : 0}px` }, pass.name.replace(/^tir\./, "")), make("span", { class: "ms" }, pass.ms.toFixed(1)),
        make("span", { class: "dim", hidden: true }, pass.changed ? " changed" : " unchanged"))));
    }
    const touched = this.touchedBy();
    for (const item of list.children) {
      const k = Number(item.dataset.pass);
      item.setAttribute("aria-selected", String(k === state.pass));
      item.classList.toggle("touch", touched.has(k));
      if (k === state.pass) { item.scrollIntoView({ block: "nearest" }); list.setAttribute("aria-activedescendant", item.id); }
    }
    const steps = model.changed;
    const slider = byId("slider");
    slider.max = steps.length - 1;
    slider.value = Math.max(0, steps.filter((k) => k <= state.pass).length - 1);
    const name = model.passes[state.pass].name;
    slider.setAttribute("aria-valuetext", name);
    byId("shown").textContent = name;
    byId("base").value = String(state.base);
  }

  /** The passes that changed a function made of what is chosen. */
  touchedBy() {
    const { model, state } = this;
    const found = new Set();
    if (state.nodes.size) model.passes.forEach((pass, k) => {
      for (const [name, text] of Object.entries(pass.functions ?? {}))
        if (k && name !== "main" && text >= 0 && pass.changed && model.touches(model.texts[text].whole, state.nodes)) found.add(k);
    });
    return found;
  }

  showKernels() {
    const { model, state } = this;
    const names = [...new Set([...model.after[state.pass].keys(), ...(state.kernel ? [state.kernel] : [])])].filter((name) => {
      const id = model.textAt(name, state.pass);
      return id >= 0 && (model.texts[id].kind === "tir" || name === state.kernel);
    }).sort();
    const changed = model.passes[state.pass].functions ?? {};
    byId("kernel").replaceChildren(...names.map((name) => make("option", { value: name }, (changed[name] !== undefined ? "● " : "") + name)));
    byId("kernel").value = state.kernel;
  }

  chip(text, on, title = text) {
    return make("span", { class: "chip", tabindex: 0, role: "button", title, onclick: on, onkeydown: (event) => event.key === "Enter" && on() }, text);
  }

  nodeChip(k) {
    const node = this.model.nodes[k];
    return this.chip(node.name, () => this.pickNodes([k]), `${node.op} ${node.name}`);
  }

  showSelection() {
    const { model, state } = this;
    const parts = [];
    const nodes = [...state.nodes];
    const add = (head, ...inner) => inner.length && parts.push(make("dt", {}, head), make("dd", {}, ...inner));
    if (state.line) {
      const kernel = model.kernelOf.get(state.kernel);
      add("TensorIR", make("code", {}, `${state.kernel}:${state.line}`));
      const text = kernel ? model.lines(kernel.tir)[state.line - 1] : "";
      if (text) add("statement", make("code", {}, text.trim().slice(0, 300)));
    }
    add(`model nodes (${nodes.length})`, ...nodes.slice(0, 24).map((k) => this.nodeChip(k)), ...(nodes.length > 24 ? [`and ${nodes.length - 24} more`] : []));
    if (nodes.length === 1) {
      const node = model.nodes[nodes[0]];
      add("operator", node.op || "—");
      if (node.us) add("time, by its loops", micro(node.us));
      if (node.gone) add(`removed by ${node.gone[0]}, into`, ...(node.gone[1].length ? node.gone[1].slice(0, 12).map((k) => this.nodeChip(k)) : ["nothing: nobody asks for it"]));
    }
    const kernels = model.kernelsOf(state.nodes);
    add(`kernels (${kernels.length})`, ...kernels.slice(0, 16).map((k) => this.chip(k.name, () => this.set({ kernel: k.name, line: 0 }, "other"))));
    byId("selection").replaceChildren(nodes.length || state.line ? make("dl", {}, ...parts) : make("p", { class: "dim", style: "white-space:normal" }, "Click a node, a line or a kernel: where it came from and what became of it is marked everywhere."));
    const about = model.notes.filter((note) => (nodes.length ? model.touches(note.set, state.nodes) : note.function === state.kernel));
    byId("decisions").replaceChildren(...(about.length ? about.slice(0, 30).map((note) => make("div", { class: "note-card" }, make("b", {}, `${note.kind} `), note.subject, make("div", { class: "dim" }, note.pass ? `in ${note.pass}` : ""), make("pre", {}, note.text), ...(note.steps ? [make("details", {}, make("summary", {}, "its steps"), make("pre", {}, note.steps))] : [])))
      : [make("p", { class: "dim" }, "none about this")]));
  }

  showTab() {
    for (const tab of document.querySelectorAll("[data-tab]")) {
      const on = tab.dataset.tab === this.state.tab;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      byId(tab.dataset.tab).hidden = !on;
    }
  }

  // ---- the address

  write() {
    const { model, state } = this;
    const words = new URLSearchParams();
    words.set("pass", String(state.pass));
    if (state.base >= 0) words.set("base", String(state.base));
    if (state.kernel) words.set("kernel", state.kernel);
    if (state.nodes.size) words.set("nodes", [...state.nodes].slice(0, 60).map((k) => model.nodes[k].name).join("|"));
    if (state.line) words.set("line", String(state.line));
    if (state.tab !== "times") words.set("tab", state.tab);
    if (state.flame) words.set("flame", state.flame);
    if (state.all) words.set("all", "1");
    this.hash = words.toString();
    history.replaceState(null, "", `#${this.hash}`);
  }

  read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const { model, state } = this;
    const number = (name, most, otherwise) => (words.has(name) ? Math.max(-1, Math.min(most, Number(words.get(name)) || 0)) : otherwise);
    const names = (words.get("nodes") ?? "").split("|").filter((name) => model.byName.has(name));
    const kernel = words.get("kernel");
    const tab = words.get("tab") ?? "times";
    this.set({
      pass: Math.max(0, number("pass", model.passes.length - 1, state.pass)), base: number("base", model.passes.length - 1, -1),
      kernel: kernel && model.history.has(kernel) ? kernel : state.kernel, nodes: new Set(names.map((name) => model.byName.get(name))),
      line: Math.max(0, number("line", 1e6, 0)), tab: byId(tab)?.getAttribute("role") === "tabpanel" ? tab : "times", flame: words.get("flame") ?? "", all: words.get("all") === "1",
    }, "address");
    byId("all").checked = state.all;
  }

  // ---- controls

  move(step) {
    const { changed } = this.model;
    const at = changed.filter((k) => (step > 0 ? k > this.state.pass : k < this.state.pass));
    const pass = step > 0 ? at[0] : at.pop();
    if (pass !== undefined) this.toPass(pass);
  }

  toPass(pass) {
    const follow = this.state.base >= 0 && this.following;
    this.set({ pass, base: follow ? this.before(pass) : this.state.base }, "pass");
  }

  before(pass) {
    return this.model.changed.filter((k) => k < pass).pop() ?? -1;
  }

  compare() {
    this.following = this.state.base < 0;
    this.set({ base: this.following ? this.before(this.state.pass) : -1 }, "pass");
  }

  controls() {
    const { model } = this;
    byId("slider").addEventListener("input", (event) => this.toPass(model.changed[Number(event.target.value)] ?? 0));
    byId("back").addEventListener("click", () => this.move(-1));
    byId("next").addEventListener("click", () => this.move(1));
    byId("all").addEventListener("change", (event) => this.set({ all: event.target.checked }));
    byId("base").replaceChildren(make("option", { value: "-1" }, "nothing"), ...model.changed.map((k) => make("option", { value: k }, `${k}: ${model.passes[k].name}`)));
    byId("base").addEventListener("change", (event) => { this.following = false; this.set({ base: Number(event.target.value) }, "pass"); });
    byId("kernel").addEventListener("change", (event) => this.set({ kernel: event.target.value, line: 0 }, "kernel"));
    byId("passes").addEventListener("click", (event) => { const item = event.target.closest("li"); if (item) this.toPass(Number(item.dataset.pass)); });
    byId("passes").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const at = this.rows.findIndex(({ k }) => k === this.state.pass);
      const row = this.rows[Math.max(0, Math.min(this.rows.length - 1, at + step))];
      if (row) this.toPass(row.k);
    });
    byId("clear").addEventListener("click", () => this.clear());
    byId("help").addEventListener("click", () => byId("keys").showModal());
    byId("theme").addEventListener("click", () => this.theme());
    for (const tab of document.querySelectorAll("[data-tab]")) {
      tab.addEventListener("click", () => this.set({ tab: tab.dataset.tab }));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const tabs = [...document.querySelectorAll("[data-tab]")];
        const other = step && tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
        if (other) { this.set({ tab: other.dataset.tab }); other.focus(); }
      });
    }
    document.querySelector("[data-do=fit]").addEventListener("click", () => this.graph.fit());
    document.querySelector("[data-do=constants]").addEventListener("click", () => this.graph.toggleConstants());
    document.querySelector("[data-do=collapse]").addEventListener("click", () => this.graph.collapse());
    for (const head of document.querySelectorAll(".pane > .head")) head.addEventListener("dblclick", (event) => event.target.closest("button,select") || this.large(head.parentNode));
    let kept = null;
    try { kept = localStorage.getItem("loopwright-theme"); } catch { /* a page without storage */ }
    this.theme(kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  }

  theme(given) {
    const root = document.documentElement;
    root.dataset.theme = given ?? (root.dataset.theme === "dark" ? "light" : "dark");
    try { if (!given) localStorage.setItem("loopwright-theme", root.dataset.theme); } catch { /* a page without storage */ }
  }

  large(pane) {
    const on = !pane.classList.contains("big");
    document.querySelectorAll(".pane.big").forEach((other) => other.classList.remove("big"));
    pane.classList.toggle("big", on);
    byId("main").classList.toggle("one", on);
    Object.values(this.panes).forEach((text) => text.draw());
    this.graph.fit();
  }

  clear() {
    this.set({ nodes: new Set(), line: 0 });
  }

  keys() {
    const panes = ["graph", "relax", "tir", "numbers", "llvm", "asm"];
    document.addEventListener("keydown", (event) => {
      if (event.target.closest?.("input[type=search],dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
      const pane = byId(panes[Number(event.key) - 1] ?? "");
      if (pane) (pane.querySelector(".text,svg .nd,table tbody tr,[role=tab]") ?? pane).focus();
      else if (event.key === "/") byId("search").focus();
      else if (event.key === "[" || event.key === "]") this.move(event.key === "]" ? 1 : -1);
      else if (event.key === "d") this.compare();
      else if (event.key === "t") this.theme();
      else if (event.key === "m") { const own = document.activeElement.closest(".pane") ?? document.querySelector(".pane.big"); if (own) this.large(own); }
      else if (event.key === "?") byId("keys").showModal();
      else if (event.key === "Escape") this.clear();
      else return;
      event.preventDefault();
    });
  }

  // ---- search

  search() {
    const [input, list] = [byId("search"), byId("found")];
    let [found, at] = [[], 0];
    const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); };
    const take = (k) => { close(); input.blur(); found[k]?.go(); };
    const draw = () => {
      list.replaceChildren(...found.map((item, k) => make("li", { role: "option", id: `found-${k}`, "aria-selected": String(k === at), onmousedown: (event) => { event.preventDefault(); take(k); } }, make("b", {}, item.kind), make("span", { title: item.text }, item.text))));
      list.hidden = !found.length;
      input.setAttribute("aria-expanded", String(found.length > 0));
      input.setAttribute("aria-activedescendant", found.length ? `found-${at}` : "");
    };
    input.addEventListener("input", () => { found = this.find(input.value.trim()); at = 0; draw(); });
    input.addEventListener("blur", close);
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        at = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length);
        draw();
        list.children[at]?.scrollIntoView({ block: "nearest" });
        event.preventDefault();
      } else if (event.key === "Enter") take(at);
      else if (event.key === "Escape") { input.value = ""; close(); input.blur(); }
    });
  }

  find(text) {
    if (!text) return [];
    const { model } = this;
    const has = (word) => word.toLowerCase().includes(text.toLowerCase());
    const out = [];
    const add = (kind, items) => out.push(...items.slice(0, 12).map(([label, go]) => ({ kind, text: label, go })));
    add("node", model.nodes.flatMap((node, k) => (has(node.name) || has(node.op) ? [[`${node.op} ${node.name}`, () => this.pickNodes([k])]] : [])));
    add("kernel", model.kernels.flatMap((k) => (has(k.name) ? [[k.name, () => this.pickKernel(k.name)]] : [])));
    add("pass", model.passes.flatMap((pass, k) => (has(pass.name) && !pass.group ? [[pass.name, () => this.toPass(k)]] : [])));
    for (const [id, pane] of Object.entries(this.panes))
      add(id, pane.rows.flatMap((row, k) => (row.set !== undefined && has(row.t) ? [[row.t.trim().slice(0, 160), () => { pane.choose(k); pane.box.scrollTop = Math.max(0, k * HEIGHT - 100); pane.draw(); }]] : [])));
    return out.slice(0, 60);
  }
}

unpack().then((data) => {
  window.page = new Page(new Model(data));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}).catch((error) => {
  document.getElementById("main").textContent = `This page cannot be shown: ${error}. It needs a browser of 2023 or later.`;
  throw error;
});
