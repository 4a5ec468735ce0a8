// The state of the page, what shows it, and what changes it. The state is in the address, and each
// state that was chosen is a step of the browser's history.

const PANES = ["graph", "relax", "tir", "numbers", "llvm", "asm"]; // in the order of their keys

class Page {
  constructor(model) {
    this.model = model;
    const last = model.changed[model.changed.length - 1] ?? 0;
    this.first = { view: "panes", pass: last, base: -1, kernel: this.firstKernel(), nodes: new Set(), line: 0, code: "", tab: "times", all: false, flame: "" };
    this.state = { ...this.first };
    byId("title").textContent = model.title;
    byId("target").textContent = model.target;
    const pick = (row, pane) => this.pickLine(row, pane);
    this.panes = Object.fromEntries(["relax", "tir", "llvm", "asm"].map((id) => [id, new TextPane(id, model, pick)]));
    this.charts = new Charts(model, (name) => this.pickKernel(name), (nodes) => this.pickNodes(nodes), (box) => this.pickFlame(box));
    this.graph = new Graph(model, (nodes) => this.pickNodes(nodes, "graph"));
    this.overview = new Overview(this);
    this.controls();
    this.keys();
    this.search();
    this.read();
    for (const moved of ["popstate", "hashchange"]) window.addEventListener(moved, () => location.hash.slice(1) !== this.hash && this.read());
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
    this.write(Object.keys(changes).sort().join());
  }

  /** The view in which something chosen is shown: the overview is left for all panes. */
  leaving() {
    return this.state.view === "overview" ? "panes" : this.state.view;
  }

  pickNodes(nodes, from = "other") {
    const chosen = new Set(nodes);
    const kernels = this.model.kernelsOf(chosen);
    const kernel = kernels.some((k) => k.name === this.state.kernel) ? this.state.kernel : kernels[0]?.name ?? this.state.kernel;
    this.set({ nodes: chosen, line: 0, code: "", kernel, view: this.leaving() }, from);
  }

  pickKernel(name) {
    const kernel = this.model.kernelOf.get(name);
    this.set({ kernel: name, nodes: new Set(kernel ? this.model.members[kernel.set] : []), line: 0, code: "", view: this.leaving() }, "other");
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
    const code = pane.kind === "tir" ? "" : `${pane.kind}:${row.n}`;
    this.set({ nodes: new Set(nodes), line, code }, pane.kind);
  }

  /** Show a pane's line as if it was clicked, after the pane has its text. */
  jump(pane, k) {
    this.set({ view: this.state.view === "panes" || this.state.view === pane ? this.state.view : pane });
    this.panes[pane].jump(k);
    byId(pane).scrollIntoView({ block: "nearest" });
  }

  /** What a pass changed. */
  compareAt(pass) {
    this.following = true;
    this.set({ view: "panes", pass, base: this.before(pass) }, "pass");
  }

  // ---- showing

  show(from) {
    const { model, state } = this;
    this.showView();
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
    this.showLegend();
    this.showSelection();
    this.showTab();
  }

  /** One view: the overview, all panes, or one. */
  showView() {
    const { view } = this.state;
    for (const button of document.querySelectorAll("#views button")) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    for (const button of document.querySelectorAll("[data-do=large]")) button.setAttribute("aria-pressed", String(button.closest(".pane").id === view));
    document.body.dataset.chosen = String(this.state.nodes.size > 0 || this.state.line > 0);
    if (this.shown === view) return;
    this.shown = document.body.dataset.view = view;
    document.querySelector(`#views [data-view=${view}]`).scrollIntoView({ block: "nearest", inline: "nearest" });
    byId("main").scrollTop = 0;
    for (const id of PANES) byId(id).classList.toggle("big", id === view);
    for (const text of Object.values(this.panes)) text.draw();
    if (view === "panes" || view === "graph") this.graph.fit();
  }

  /** The nodes of the kernel that is shown, with their colours and shares. */
  showLegend() {
    const { model, state } = this;
    const kernel = model.kernelOf.get(state.kernel);
    const shares = [...(kernel?.shares ?? [])].sort((a, b) => b[1] - a[1]);
    byId("legend").replaceChildren(...(kernel ? [make("span", { class: "dim" }, kernel.name), ...(kernel.us ? [make("b", {}, micro(kernel.us))] : [])] : []),
      ...shares.slice(0, 12).map(([k, share]) => this.nodeChip(k, percent(share))), ...(shares.length > 12 ? [make("span", { class: "dim" }, `and ${shares.length - 12} more`)] : []));
  }

  /** Decisions of a pass, at the line of the node that they are about. */
  reasons(row, pass) {
    if (row.set === 0) return "";
    const nodes = this.model.members[row.set];
    return this.model.notes.filter((note) => note.pass === pass && nodes.has(note.node))
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
    return make("span", { class: "chip", title, ...pressed(on) }, text);
  }

  nodeChip(k, more = "") {
    const node = this.model.nodes[k];
    const chip = this.chip(tail(node.name), () => this.pickNodes([k]), `${node.op} ${node.name}`);
    chip.prepend(make("i", { class: "swatch", style: `background:${this.model.colour(k)}` }));
    if (more) chip.append(make("b", {}, more));
    return chip;
  }

  nodeLink(k) {
    const { name, op } = this.model.nodes[k];
    return make("a", { class: "to node", style: `--own:${this.model.colour(k)}`, title: `${op} ${name}`, ...pressed(() => this.pickNodes([k])) }, tail(name, 34));
  }

  /** The answers about a line of code: its loops, its calls, how many times it runs, how long. */
  answers(add, node) {
    const { model, state } = this;
    const kernel = model.kernelOf.get(state.kernel);
    if (!state.line || !kernel) return;
    const row = (k, text, on) => make("div", { class: "to row-of", title: text, ...pressed(on) }, make("code", {}, k), make("code", {}, text));
    const tir = model.lines(kernel.tir);
    const [pane, at] = state.code.split(":");
    if (at && kernel[pane] !== undefined) add(pane === "asm" ? "instruction" : "LLVM", make("code", {}, model.lines(kernel[pane])[at - 1].trim().slice(0, 200)));
    const runs = (line) => kernel.runs?.[line - 1] ?? 0;
    add("how often", runs(state.line) ? `${count(Math.round(runs(state.line)), "time")} a call, ${count(kernel.calls || model.callers(kernel.name).length, "call")} a run` : "its loops do not determine it");
    const part = kernel.work?.[state.line - 1] ?? 0;
    add("how long", kernel.us ? `about ${micro(part * kernel.us)} of a run, ${percent(part)} of its kernel's ${micro(kernel.us)}, by its loops` : "no run was timed");
    const loops = model.loopsAround(kernel, state.line);
    const extent = (k) => Math.round(runs(loops[k + 1] ?? state.line) / (runs(loops[k]) || 1));
    const loop = (line, k) => {
      const [, name, kind] = /for (.*?) in (?:T\.)?(\w+)/.exec(tir[line - 1]) ?? ["", tir[line - 1].trim(), ""];
      return row(line, `${name} × ${extent(k).toLocaleString("en")}${kind === "range" ? "" : ` ${kind}`}`, () => this.toLine(line));
    };
    add(`loops (${loops.length}), outermost first`, ...(loops.length ? loops.map(loop) : ["it is in no loop"]));
    const calls = model.callers(kernel.name);
    const relax = model.relaxAt(model.lastRelax);
    add(`Relax calls (${calls.length})`, ...calls.slice(0, 8).map((k) => row(k + 1, model.lines(relax)[k].trim(), () => this.toCall(k))), ...(calls.length > 8 ? [`and ${calls.length - 8} more`] : []));
    node();
    add("statement", row(state.line, (tir[state.line - 1] ?? "").trim().slice(0, 300), () => this.toLine(state.line)));
    const lines = kernel.asm === undefined ? [] : model.texts[kernel.asm].lines;
    const first = lines.indexOf(state.line);
    if (first >= 0) add("its instructions", this.chip(`${lines.filter((n) => n === state.line).length}, from line ${first + 1}`, () => this.jump("asm", first)));
  }

  /** A line of the kernel's lowered loops. */
  toLine(line) {
    this.set({ pass: this.model.passes.length - 1, base: -1 });
    this.jump("tir", line - 1);
  }

  /** A line of the last graph program. */
  toCall(k) {
    this.set({ pass: this.model.lastRelax, base: -1 });
    this.jump("relax", k);
  }

  showSelection() {
    const { model, state } = this;
    const parts = [];
    const nodes = [...state.nodes];
    const add = (head, ...inner) => inner.length && parts.push(make("dt", {}, head), make("dd", {}, ...inner));
    const named = () => add(nodes.length === 1 ? "model node" : `model nodes (${nodes.length})`, ...nodes.slice(0, 24).map((k) => this.nodeChip(k)), ...(nodes.length > 24 ? [`and ${nodes.length - 24} more`] : []));
    if (state.line) this.answers(add, named);
    else named();
    if (nodes.length === 1) {
      const node = model.nodes[nodes[0]];
      add("operator", node.op || "—");
      if (node.us) add("time, by its loops", `${micro(node.us)}, ${percent(node.us / model.total)}`);
      if (node.gone) add(`removed by ${node.gone[0]}, into`, ...(node.gone[1].length ? node.gone[1].slice(0, 12).map((k) => this.nodeChip(k)) : ["nothing: its result is unused"]));
    }
    if (!state.line) add("machine code", ...this.codeOf(state.nodes));
    byId("selection").replaceChildren(nodes.length || state.line ? make("dl", {}, ...parts) : make("p", { class: "dim", style: "white-space:normal" }, "Click a node, a line or a kernel: where it came from and what became of it is marked everywhere."));
    this.showDecisions();
  }

  /** The kernels of nodes, each with its first instruction for them. */
  codeOf(nodes) {
    const { model } = this;
    const kernels = model.kernelsOf(nodes);
    const chips = kernels.slice(0, 16).map((kernel) => {
      const { o = [] } = kernel.asm === undefined ? {} : model.texts[kernel.asm];
      const lines = o.flatMap((set, k) => (set > 0 && model.touches(set, nodes) ? [k] : []));
      const chip = this.chip(kernel.name, () => { this.set({ kernel: kernel.name, line: 0, code: "" }, "other"); if (lines.length) this.jump("asm", lines[0]); });
      if (lines.length) chip.append(make("b", {}, count(lines.length, "instruction")));
      return chip;
    });
    return [...chips, ...(kernels.length > 16 ? [`and ${kernels.length - 16} more`] : [])];
  }

  /** Each decision once, at the node that it is about; another node of the kernel only points there. */
  showDecisions() {
    const { model, state } = this;
    const about = model.notes.filter((note) => (state.nodes.size ? state.nodes.has(note.node) : note.function === state.kernel));
    const elsewhere = new Set(state.nodes.size && state.nodes.size < 12 ? model.notes.filter((note) => note.node >= 0 && !state.nodes.has(note.node) && model.touches(note.set, state.nodes)).map((note) => note.node) : []);
    const cards = about.slice(0, 30).map((note) => make("div", { class: "note-card" }, make("b", {}, `${note.kind} `), note.subject, make("div", { class: "dim" }, note.pass ? `in ${note.pass}` : ""), make("pre", {}, note.text), ...(note.steps ? [make("details", {}, make("summary", {}, "its steps"), make("pre", {}, note.steps))] : [])));
    const more = elsewhere.size ? [make("p", { class: "dim" }, "of its kernels, at"), ...[...elsewhere].slice(0, 8).map((k) => this.nodeChip(k))] : [];
    byId("decisions").replaceChildren(...cards, ...more, ...(cards.length || more.length ? [] : [make("p", { class: "dim" }, "none about this")]));
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

  /** The state in the address: a new step of the history, or in place of the last one where only the
   * same was changed again (a slider), or the address was read. */
  write(kind) {
    const { model, state } = this;
    const words = new URLSearchParams();
    if (state.view !== "panes") words.set("view", state.view);
    words.set("pass", String(state.pass));
    if (state.base >= 0) words.set("base", String(state.base));
    if (state.kernel) words.set("kernel", state.kernel);
    if (state.nodes.size) words.set("nodes", [...state.nodes].slice(0, 60).map((k) => model.nodes[k].name).join("|"));
    if (state.line) words.set("line", String(state.line));
    if (state.code) words.set("code", state.code);
    if (state.tab !== "times") words.set("tab", state.tab);
    if (state.flame) words.set("flame", state.flame);
    if (state.all) words.set("all", "1");
    const hash = words.toString();
    const again = this.reading || (kind === "base,pass,view" && kind === this.kind);
    this.kind = this.reading ? "" : kind;
    if (hash === this.hash) return;
    this.hash = hash;
    history[again ? "replaceState" : "pushState"](null, "", `#${hash}`);
  }

  read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const { model, first } = this;
    const number = (name, most) => (words.has(name) ? Math.max(-1, Math.min(most, Number(words.get(name)) || 0)) : first[name]);
    const names = (words.get("nodes") ?? "").split("|").filter((name) => model.byName.has(name));
    const kernel = words.get("kernel");
    const tab = words.get("tab");
    const view = words.get("view") ?? (location.hash.length > 1 ? "panes" : "overview");
    this.reading = true;
    this.set({
      view: view === "overview" || PANES.includes(view) ? view : "panes",
      pass: Math.max(0, number("pass", model.passes.length - 1)), base: number("base", model.passes.length - 1),
      kernel: kernel && model.history.has(kernel) ? kernel : first.kernel, nodes: new Set(names.map((name) => model.byName.get(name))),
      line: Math.max(0, number("line", 1e6)), code: /^(asm|llvm):\d+$/.test(words.get("code") ?? "") ? words.get("code") : "",
      tab: tab && byId(tab)?.getAttribute("role") === "tabpanel" ? tab : "times", flame: words.get("flame") ?? "", all: words.get("all") === "1",
    }, "address");
    this.reading = false;
    byId("all").checked = this.state.all;
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
    this.set({ pass, base: follow ? this.before(pass) : this.state.base, view: this.leaving() }, "pass");
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
    byId("kernel").addEventListener("change", (event) => this.set({ kernel: event.target.value, line: 0, code: "" }, "kernel"));
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
    for (const button of document.querySelectorAll("#views button")) button.addEventListener("click", () => this.set({ view: button.dataset.view }));
    for (const button of document.querySelectorAll("[data-do=large]")) button.addEventListener("click", () => this.large(button.closest(".pane").id));
    for (const head of document.querySelectorAll(".pane > .head")) head.addEventListener("dblclick", (event) => event.target.closest("button,select") || this.large(head.parentNode.id));
    this.theme = themed();
  }

  large(id) {
    this.set({ view: this.state.view === id ? "panes" : id });
  }

  clear() {
    this.set({ nodes: new Set(), line: 0, code: "" });
  }

  keys() {
    document.addEventListener("keydown", (event) => {
      if (event.target.closest?.("input[type=search],dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
      const pane = byId(PANES[Number(event.key) - 1] ?? "");
      if (pane && this.state.view !== "panes") this.set({ view: pane.id });
      if (pane) (pane.querySelector(".text,svg .nd,table tbody tr,[role=tab]") ?? pane).focus();
      else if (event.key === "/") byId("search").focus();
      else if (event.key === "[" || event.key === "]") this.move(event.key === "]" ? 1 : -1);
      else if (event.key === "d") this.compare();
      else if (event.key === "t") this.theme();
      else if (event.key === "m") { const own = document.activeElement.closest(".pane") ?? document.querySelector(".pane.big"); if (own) this.large(own.id); }
      else if (event.key === "o") this.set({ view: "overview" });
      else if (event.key === "0") this.set({ view: "panes" });
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
      add(id, pane.rows.flatMap((row, k) => (row.set !== undefined && has(row.t) ? [[row.t.trim().slice(0, 160), () => this.jump(id, k)]] : [])));
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
