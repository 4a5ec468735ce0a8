// The page of a pair: sentences, kernels, graphs and texts of two compilations side by side.

const KINDS = ["relax", "tir", "llvm", "asm"];

class Pair {
  constructor(data) {
    Object.assign(this, data);
    this.models = [new Model(data.before), new Model(data.after)];
    this.state = { kind: "tir", row: this.first(), nodes: [new Set(), new Set()] };
    byId("title").textContent = this.title;
    this.other = [new Map(this.nodes), new Map(this.nodes.map(([a, b]) => [b, a]))];
    byId("overview").replaceChildren(make("h2", { class: "lead" }, ...this.said(this.sentences[0])), make("ul", {}, ...this.sentences.slice(1).map((one) => make("li", {}, ...this.said(one)))));
    this.table();
    this.panes = ["text-a", "text-b"].map((id, side) => new TextPane(id, this.models[side], (row) => this.pick(side, [...this.models[side].members[row.set ?? 0]])));
    this.graphs = ["graph-a", "graph-b"].map((id, side) => new Graph(this.models[side], (nodes) => this.pick(side, nodes), document.querySelector(`#${id} .view`), (nodes) => this.change(side, nodes)));
    this.together();
    this.controls();
    this.read();
  }

  /** The row with the largest change of time. */
  first() {
    const change = ([a, b]) => Math.abs(this.us(0, a) - this.us(1, b));
    const rows = this.kernels.map((row, k) => k).filter((k) => !this.graphOnly(k));
    return rows.sort((p, q) => change(this.kernels[q]) - change(this.kernels[p]))[0] ?? 0;
  }

  kernel(side, k) {
    return k < 0 ? undefined : this.models[side].kernels[k];
  }

  us(side, k) {
    return this.kernel(side, k)?.us ?? 0;
  }

  graphOnly(k) {
    const [a, b] = this.kernels[k];
    return Boolean((this.kernel(0, a) ?? this.kernel(1, b)).graph);
  }

  name(k) {
    const [a, b] = this.kernels[k];
    const [old, now] = [this.kernel(0, a)?.name, this.kernel(1, b)?.name];
    return old && now && old !== now ? `${old} → ${now}` : now ?? old;
  }

  said(sentence) {
    return sentence.flatMap((part) => (typeof part === "string" ? [part]
      : [make("a", { class: "to code", ...pressed(() => this.toRow(part.pair)) }, this.name(part.pair)), part.text ?? ""]));
  }

  /** A change of time in words and in the colour of its direction. */
  ratio(old, now) {
    if (!old || !now) return make("span", { class: "dim" }, old ? "only before" : now ? "only after" : "");
    const part = now / old - 1;
    const same = Math.abs(part) < 0.03 || Math.abs(now - old) < 0.3; // microseconds: a clock's reading
    return make("span", { class: same ? "dim" : part > 0 ? "worse" : "better" }, same ? "same" : part >= 1 ? `× ${(now / old).toFixed(1)}` : `${part > 0 ? "+" : "−"}${percent(Math.abs(part))}`);
  }

  table() {
    const rows = this.kernels.map(([a, b], k) => ({ k, old: this.us(0, a), now: this.us(1, b) })).filter(({ k }) => !this.graphOnly(k));
    rows.sort((p, q) => Math.max(q.old, q.now) - Math.max(p.old, p.now));
    const timed = rows.some(({ old, now }) => old || now);
    const cells = ({ k, old, now }) => (timed ? [old ? micro(old) : "", now ? micro(now) : "", this.ratio(old, now)]
      : [0, 1].map((side) => String(this.kernel(side, this.kernels[k][side])?.flops?.toLocaleString("en") ?? "")));
    const heads = timed ? ["kernel", "before", "after", "change"] : ["kernel", "operations before", "after"];
    this.rows = rows.map((row) => ({ k: row.k, element: make("tr", { tabindex: 0, onclick: () => this.toRow(row.k), onkeydown: (event) => event.key === "Enter" && this.toRow(row.k) },
      make("td", { title: this.name(row.k) }, make("div", { class: "name" }, make("span", {}, make("bdi", {}, this.name(row.k))))), ...cells(row).map((cell) => make("td", {}, cell))) }));
    byId("times").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, ...this.rows.map(({ element }) => element))));
  }

  /** The fill of a box: green where its nodes take less time than on the other side, red where more. */
  change(side, nodes) {
    const sum = (of, some) => some.reduce((total, k) => total + (k < 0 ? 0 : this.models[of].nodes[k].us), 0);
    const mates = nodes.map((k) => this.other[side].get(k) ?? -1);
    const [own, other] = [sum(side, nodes), sum(1 - side, mates)];
    const [old, now] = side ? [other, own] : [own, other];
    const most = Math.max(this.models[0].total, this.models[1].total);
    const part = Math.min(1, (8 * Math.abs(now - old)) / (most || 1));
    const fill = mates.every((k) => k < 0) ? "var(--soft)" : part > 0.02 ? `color-mix(in srgb, var(--${now > old ? "bad" : "good"}) ${Math.round(8 + part * 30)}%, var(--pane))` : "";
    return { text: own ? micro(own) : "", fill };
  }

  // ---- what is chosen

  pick(side, nodes) {
    const mates = nodes.map((k) => this.other[side].get(k) ?? -1).filter((k) => k >= 0);
    const chosen = side ? [mates, nodes] : [nodes, mates];
    const kernel = this.models[side].kernelsOf(new Set(nodes))[0];
    const row = kernel ? this.kernels.findIndex((pair) => this.kernel(side, pair[side]) === kernel) : this.state.row;
    this.set({ nodes: chosen.map((some) => new Set(some)), row });
  }

  toRow(row) {
    const nodes = this.kernels[row].map((k, side) => new Set(k < 0 ? [] : this.models[side].members[this.kernel(side, k).set]));
    this.set({ row, nodes });
    byId("text-a").scrollIntoView({ block: "nearest" });
  }

  set(changes, from = "") {
    Object.assign(this.state, changes);
    this.show();
    if (from !== "address") {
      const words = new URLSearchParams({ kind: this.state.kind, row: String(this.state.row), nodes: [...this.state.nodes[0]].join(" "), other: [...this.state.nodes[1]].join(" ") });
      if (`#${words}` !== location.hash) history.pushState(null, "", `#${words}`);
    }
  }

  read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const numbers = (name, side) => new Set((words.get(name) ?? "").split(" ").filter(Boolean).map(Number).filter((k) => this.models[side].nodes[k]));
    const row = Number(words.get("row") ?? NaN);
    this.set({ kind: KINDS.includes(words.get("kind")) ? words.get("kind") : "tir", row: this.kernels[row] ? row : this.first(), nodes: [numbers("nodes", 0), numbers("other", 1)] }, "address");
  }

  // ---- showing

  show() {
    const { kind, row, nodes } = this.state;
    for (const button of document.querySelectorAll("[data-kind]")) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    const texts = this.kernels[row].map((k, side) => {
      const model = this.models[side];
      return kind === "relax" ? model.relaxAt(model.lastRelax) : this.kernel(side, k)?.[kind] ?? -1;
    });
    const key = `${kind} ${texts}`;
    if (this.shown !== key) this.compare(texts, kind, row);
    this.shown = key;
    this.panes.forEach((pane, side) => {
      pane.mark({ nodes: nodes[side] });
      this.graphs[side].mark(nodes[side]);
      this.graphs[side].reveal(nodes[side]);
    });
    for (const { k, element } of this.rows) element.classList.toggle("hit", k === row);
  }

  /** Both texts, with empty lines where the other one has more. */
  compare(texts, kind, row) {
    const [old, now] = this.panes.map((pane, side) => (texts[side] < 0 ? [] : pane.plain(texts[side])));
    const gap = { t: "", n: "", set: 0, change: "gap" };
    const rows = [[], []];
    const level = () => rows.forEach((some, side) => { while (some.length < rows[1 - side].length) some.push(gap); });
    let [i, j] = [0, 0];
    for (const part of Diff.diffArrays(old.map((line) => line.t), now.map((line) => line.t))) {
      const count = part.count ?? part.value.length;
      for (let k = 0; k < count; k++) {
        const [before, after] = [part.added ? null : old[i++], part.removed ? null : now[j++]];
        if (before && after) { level(); rows[0].push(before); rows[1].push(after); }
        else rows[before ? 0 : 1].push({ ...(before ?? after), change: before ? "del" : "add" });
      }
      if (!part.removed) level(); // what was removed may be followed by what was added for it
    }
    level();
    const none = kind === "relax" ? "no graph program" : "no kernel, or no such code, on this side";
    this.panes.forEach((pane, side) => pane.put(texts[side], rows[side], kind, this.kernel(side, this.kernels[row][side])?.name ?? "", none));
  }

  /** One scrolls with the other. */
  together() {
    this.panes.forEach((pane, side) => pane.box.addEventListener("scroll", () => {
      const { box } = this.panes[1 - side];
      if (Math.abs(box.scrollTop - pane.box.scrollTop) > 1) box.scrollTop = pane.box.scrollTop;
    }));
  }

  controls() {
    for (const button of document.querySelectorAll("[data-kind]")) button.addEventListener("click", () => this.set({ kind: button.dataset.kind }));
    byId("theme").addEventListener("click", () => this.theme());
    document.addEventListener("keydown", (event) => event.key === "t" && !event.ctrlKey && !event.metaKey && this.theme());
    window.addEventListener("popstate", () => this.read());
    this.theme = themed();
  }
}

unpack().then((data) => {
  window.page = new Pair(data);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
});
