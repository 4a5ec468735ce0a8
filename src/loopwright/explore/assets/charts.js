// Tables of times, flames, the roofline, the memory plan over time.

const NO_TIMES = "No times: give inputs, exe.html(file, inputs), or use loopwright explore.";

class Charts {
  constructor(model, pickKernel, pickNodes, pickFlame) {
    Object.assign(this, { model, pickKernel, pickNodes, pickFlame });
    this.rows = [];
    this.total = model.total;
    this.times();
    this.nodeTimes();
    this.flames = this.grouped();
    this.roofline();
    this.memory();
  }

  rate(kernel) {
    const { us, calls, flops, bytes: size } = kernel;
    const n = calls || 1;
    const gflops = us && flops ? (flops * n) / us / 1e3 : 0;
    const gbs = us && size ? (size * n) / us / 1e3 : 0;
    const { machine } = this.model;
    const roof = machine && us ? Math.max(gflops / machine.gflops, gbs / machine.gbs) : 0;
    return { gflops, gbs, roof };
  }

  /** A table. Only the first column, a name, is cut where there is no room; the last ones are left out. */
  table(id, heads, rows) {
    const body = make("tbody", {}, ...rows.map(({ cells, name, nodes, on, mark }) => {
      const dots = make("i", { class: "swatch", style: `background:${nodes}`, "aria-hidden": "true" });
      const row = make("tr", { tabindex: 0, onclick: on, onkeydown: (event) => event.key === "Enter" && on() },
        make("td", { title: name }, make("div", { class: "name" }, dots, make("span", {}, make("bdi", {}, name)))), ...cells.map((cell) => make("td", {}, cell)));
      this.rows.push({ element: row, mark });
      return row;
    }));
    byId(id).replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((h) => make("th", { scope: "col" }, h)))), body));
  }

  share(part) {
    return make("span", { class: "share" }, make("span", { class: "bar", style: `width:${Math.round(part * 40)}px` }), percent(part));
  }

  none(id, text) {
    byId(id).replaceChildren(make("div", { class: "empty" }, text));
  }

  times() {
    const kernels = this.model.kernels.filter((k) => !k.graph).sort((a, b) => b.us - a.us);
    const timed = this.total > 0;
    const number = (x) => (x ? (x < 10 ? x.toFixed(2) : x.toFixed(0)) : "");
    const heads = timed ? ["kernel", "time", "share", "of roof", "GFLOP/s", "GB/s", "calls"] : ["kernel", "operations", "bytes"];
    this.table("times", heads, kernels.map((k) => {
      const { gflops, gbs, roof } = this.rate(k);
      const cells = timed ? [micro(k.us), this.share(k.us / this.total), roof ? `${(roof * 100).toFixed(0)}%` : "", number(gflops), number(gbs), String(k.calls || "")]
        : [k.flops ? k.flops.toLocaleString("en") : "", k.bytes ? bytes(k.bytes) : ""];
      return { cells, name: k.name, nodes: this.model.stripe(k.set), on: () => this.pickKernel(k.name), mark: (state) => state.kernel === k.name };
    }));
  }

  nodeTimes() {
    const rows = this.model.nodes.map((node, k) => ({ node, k })).filter(({ node }) => node.us > 0).sort((a, b) => b.node.us - a.node.us).slice(0, 300);
    if (!rows.length) return this.none("nodes", NO_TIMES);
    this.table("nodes", ["node", "time", "share", "operator"], rows.map(({ node, k }) => ({
      cells: [micro(node.us), this.share(node.us / this.total), node.op], name: node.name, nodes: this.model.colour(k),
      on: () => this.pickNodes([k]), mark: (state) => state.nodes.has(k) })));
  }

  /** The time as a tree: groups of the model, its nodes, the kernels that do a node's work. */
  grouped() {
    const { nodes, root, kernels } = this.model;
    const timed = (box) => {
      const inner = box.node === undefined ? box.inner.map(timed)
        : nodes[box.node].parts.map(([kernel, us]) => ({ name: kernel, path: `${box.path}/${kernel}`, us, inner: [], nodes: box.nodes, kernel }));
      return { ...box, inner, us: inner.reduce((sum, one) => sum + one.us, 0) };
    };
    const whole = timed({ ...root, name: "run" });
    for (const { name, us, shares } of kernels) if (us && !shares.length) {
      whole.inner.push({ name, path: `/${name}`, us, inner: [], nodes: [], kernel: name });
      whole.us += us;
    }
    return whole;
  }

  /** The boxes around one of the tree, and all within it that are wide enough to be seen. */
  flame(path) {
    if (!this.flames.us) return this.none("flame", NO_TIMES);
    const shown = [];
    let [at, depth] = [this.flames, 0];
    const put = (box, left, width) => {
      const cost = [micro(box.us), percent(box.us / this.flames.us)];
      const own = box.nodes.length === 1 ? this.model.colour(box.nodes[0]) : "var(--dim)";
      const element = make("div", { class: `fl${box.kernel ? " leaf" : ""}`, title: `${box.path}\n${cost.join(" · ")}`, "data-path": box.path,
        style: `left:${left}%;width:${width}%;top:${depth * 25}px;--own:${own}`, ...pressed(() => this.pickFlame(box)) }, ...cost.map((part) => make("b", {}, `${part} `)), make("span", {}, box.name));
      shown.push(element);
    };
    for (;;) { // the boxes around it have the whole width
      const within = at.inner.find((box) => path === box.path || path.startsWith(`${box.path}/`));
      if (!within) break;
      put(at, 0, 100);
      [at, depth] = [within, depth + 1];
    }
    for (let row = [[at, 0, 100]]; row.length; depth++) {
      row.forEach((part) => put(...part));
      row = row.flatMap(([box, left, width]) => [...box.inner].sort((a, b) => b.us - a.us).map((inner) => {
        const part = [inner, left, (width * inner.us) / box.us];
        left += part[2];
        return part;
      })).filter(([, , width]) => width > 0.2);
    }
    const focused = byId("flame").contains(document.activeElement);
    byId("flame").replaceChildren(make("div", { class: "flames", style: `height:${depth * 25}px` }, ...shown));
    if (focused) shown.find((element) => element.dataset.path === at.path).focus();
  }

  roofline() {
    const { machine } = this.model;
    const dots = this.model.kernels.filter((k) => k.us && k.flops && k.bytes);
    if (!machine || !dots.length) return this.none("roof", NO_TIMES);
    const [w, h, left, foot] = [460, 250, 46, 34];
    const intensity = dots.map((k) => k.flops / k.bytes);
    const [x0, x1] = [Math.log10(Math.min(0.05, ...intensity)), Math.log10(Math.max(100, ...intensity))];
    const rates = dots.map((k) => this.rate(k).gflops);
    const [y0, y1] = [Math.log10(Math.max(1e-3, Math.min(0.5, ...rates))), Math.log10(machine.gflops * 2)];
    const x = (v) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (w - left - 12);
    const y = (v) => h - foot - ((Math.log10(v) - y0) / (y1 - y0)) * (h - foot - 12);
    const knee = machine.gflops / machine.gbs;
    const [a, b] = [10 ** x0, 10 ** x1];
    const line = [[a, a * machine.gbs], [knee, machine.gflops], [b, machine.gflops]].map(([p, q]) => `${x(p)},${y(Math.max(q, 10 ** y0))}`).join(" ");
    const axes = [];
    for (let e = Math.ceil(x0); e <= x1; e++) axes.push(make("line", { class: "axis", x1: x(10 ** e), x2: x(10 ** e), y1: 8, y2: h - foot }), make("text", { x: x(10 ** e), y: h - foot + 14, "text-anchor": "middle" }, String(10 ** e)));
    for (let e = Math.ceil(y0); e <= y1; e++) axes.push(make("line", { class: "axis", x1: left, x2: w - 12, y1: y(10 ** e), y2: y(10 ** e) }), make("text", { x: left - 4, y: y(10 ** e) + 4, "text-anchor": "end" }, String(10 ** e)));
    const points = dots.map((k) => {
      const { gflops, roof } = this.rate(k);
      const dot = make("circle", { class: "dot", cx: x(k.flops / k.bytes), cy: y(Math.max(gflops, 10 ** y0)), r: 4 + 10 * Math.sqrt(k.us / this.total), tabindex: 0, role: "button",
        "aria-label": `${k.name}: ${gflops.toFixed(1)} GFLOP/s, ${(roof * 100).toFixed(0)}% of the roof`, onclick: () => this.pickKernel(k.name), onkeydown: (e) => e.key === "Enter" && this.pickKernel(k.name) },
        make("title", {}, `${k.name}\n${gflops.toFixed(1)} GFLOP/s, ${(k.flops / k.bytes).toFixed(2)} operations a byte, ${(roof * 100).toFixed(0)}% of the roof`));
      this.rows.push({ element: dot, mark: (state) => state.kernel === k.name });
      return dot;
    });
    byId("roof").replaceChildren(make("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Roofline", style: "width:100%;max-height:100%" },
      ...axes, make("polyline", { class: "roofline", points: line }), ...points,
      make("text", { x: w / 2, y: h - 4, "text-anchor": "middle" }, "operations a byte"), make("text", { x: left + 4, y: 14 }, `GFLOP/s · roof: ${machine.gflops} GFLOP/s, ${machine.gbs} GB/s, measured with numpy`)));
  }

  memory() {
    const plan = this.model.memory;
    if (!plan) return this.none("memory", "No memory plan in these passes.");
    const [w, h, left, foot] = [460, 240, 66, 30];
    const x = (step) => left + (step / plan.steps.length) * (w - left - 8);
    const y = (at) => 8 + (1 - at / plan.bytes) * (h - foot - 8);
    const blocks = plan.tensors.map((t) => {
      const block = make("rect", { class: "ms-block", x: x(t.first), width: Math.max(1.5, x(t.last + 1) - x(t.first)), y: y(t.offset + t.bytes), height: Math.max(1, y(t.offset) - y(t.offset + t.bytes)),
        style: `fill:${this.model.members[t.set].size ? this.model.colour([...this.model.members[t.set]][0]) : "var(--dim)"}`, tabindex: 0, role: "button", "aria-label": `${t.name}, ${bytes(t.bytes)}, from ${plan.steps[t.first]} to ${plan.steps[t.last] ?? "the end"}`,
        onclick: () => this.pickNodes([...this.model.members[t.set]]), onkeydown: (e) => e.key === "Enter" && this.pickNodes([...this.model.members[t.set]]) },
        make("title", {}, `${t.name}: ${bytes(t.bytes)} at ${t.offset}\nfrom ${plan.steps[t.first]} to ${plan.steps[t.last] ?? "the end"}`));
      this.rows.push({ element: block, mark: (state) => this.model.touches(t.set, state.nodes) });
      return block;
    });
    const ticks = [0, 0.25, 0.5, 0.75, 1].flatMap((part) => [make("line", { class: "axis", x1: left, x2: w - 8, y1: y(part * plan.bytes), y2: y(part * plan.bytes) }),
      make("text", { x: left - 4, y: y(part * plan.bytes) + 4, "text-anchor": "end" }, bytes(Math.round(part * plan.bytes)))]);
    const sizes = Object.entries(this.model.sizes).map(([n, v]) => `${n}=${v}`).join(", ");
    byId("memory").replaceChildren(make("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Memory plan over time", style: "width:100%;max-height:100%" }, ...ticks, ...blocks,
      make("text", { x: w / 2, y: h - 8, "text-anchor": "middle" }, `calls in order (${plan.steps.length}) · ${plan.tensors.length} tensors in ${bytes(plan.bytes)}${sizes ? ` · ${sizes}` : " · unknown sizes as 1"}`)));
  }

  mark(state) {
    if (this.drawn !== state.flame) this.flame((this.drawn = state.flame));
    for (const { element, mark } of this.rows) element.classList.toggle("hit", Boolean(mark(state)));
  }
}
