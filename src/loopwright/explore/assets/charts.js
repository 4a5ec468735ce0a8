// Tables of times, flames, the roofline, the memory plan over time.

const PALETTE = ["#5b8def", "#8e6bd8", "#35a98c", "#e0a13a", "#d9678a", "#5aa7c7", "#9aa84a", "#c0785a"];

const NO_TIMES = "No times: give inputs, exe.html(file, inputs), or use loopwright explore.";

class Charts {
  constructor(model, pickKernel, pickNodes, pickFlame) {
    Object.assign(this, { model, pickKernel, pickNodes, pickFlame });
    this.rows = [];
    this.total = model.kernels.reduce((sum, k) => sum + k.us, 0);
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

  table(id, heads, rows) {
    const body = make("tbody", {}, ...rows.map(({ cells, on, mark }) => {
      const row = make("tr", { tabindex: 0, onclick: on, onkeydown: (event) => event.key === "Enter" && on() }, ...cells.map((cell) => make("td", {}, cell)));
      this.rows.push({ element: row, mark });
      return row;
    }));
    byId(id).replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((h) => make("th", { scope: "col" }, h)))), body));
  }

  none(id, text) {
    byId(id).replaceChildren(make("div", { class: "empty" }, text));
  }

  times() {
    const kernels = this.model.kernels.filter((k) => !k.graph).sort((a, b) => b.us - a.us);
    const timed = this.total > 0;
    const number = (x) => (x ? (x < 10 ? x.toFixed(2) : x.toFixed(0)) : "");
    const heads = timed ? ["kernel", "calls", "time", "share", "GFLOP/s", "GB/s", "of roof"] : ["kernel", "operations", "bytes"];
    this.table("times", heads, kernels.map((k) => {
      const { gflops, gbs, roof } = this.rate(k);
      const share = timed ? k.us / this.total : 0;
      const bar = make("span", {}, make("span", { class: "bar", style: `width:${Math.round(share * 60)}px` }), ` ${(share * 100).toFixed(1)}%`);
      const cells = timed ? [k.name, String(k.calls || ""), micro(k.us), bar, number(gflops), number(gbs), roof ? `${(roof * 100).toFixed(0)}%` : ""]
        : [k.name, k.flops ? String(k.flops) : "", k.bytes ? bytes(k.bytes) : ""];
      cells[0] = make("span", { title: k.name }, short(k.name, 22));
      return { cells, on: () => this.pickKernel(k.name), mark: (state) => state.kernel === k.name };
    }));
  }

  nodeTimes() {
    const rows = this.model.nodes.map((node, k) => ({ node, k })).filter(({ node }) => node.us > 0).sort((a, b) => b.node.us - a.node.us).slice(0, 300);
    if (!rows.length) return this.none("nodes", NO_TIMES);
    this.table("nodes", ["node", "operator", "time", "share"], rows.map(({ node, k }) => {
      const share = node.us / this.total;
      const bar = make("span", {}, make("span", { class: "bar", style: `width:${Math.round(share * 60)}px` }), ` ${(share * 100).toFixed(1)}%`);
      return { cells: [make("span", { title: node.name }, short(node.name, 30)), node.op, micro(node.us), bar], on: () => this.pickNodes([k]), mark: (state) => state.nodes.has(k) };
    }));
  }

  /** The time as a tree: scopes of the model, its nodes, the kernels that do a node's work. */
  grouped() {
    const box = (name, path) => ({ name, path, us: 0, inner: new Map(), nodes: [] });
    const root = box("run", "");
    const add = (us, node, names, kernel) => {
      let at = root;
      const steps = [...names, kernel];
      for (let k = 0; ; k++) {
        at.us += us;
        if (node !== undefined && at.nodes[at.nodes.length - 1] !== node) at.nodes.push(node);
        if (k === steps.length) return (at.kernel = kernel);
        if (!at.inner.has(steps[k])) at.inner.set(steps[k], box(steps[k], `${at.path}/${steps[k]}`));
        at = at.inner.get(steps[k]);
      }
    };
    this.model.nodes.forEach((node, k) => node.parts.forEach(([kernel, us]) => add(us, k, node.name.split("/").filter(Boolean), kernel)));
    for (const kernel of this.model.kernels) if (kernel.us && !kernel.shares.length) add(kernel.us, undefined, [], kernel.name);
    return root;
  }

  /** The boxes around one of the tree, and all within it that are wide enough to be seen. */
  flame(path) {
    if (!this.flames.us) return this.none("flame", NO_TIMES);
    const shown = [];
    let [at, depth] = [this.flames, 0];
    const put = (box, left, width) => {
      const text = `${box.name} · ${micro(box.us)} · ${((100 * box.us) / this.flames.us).toFixed(1)}%`;
      const on = () => this.pickFlame(box);
      const element = make("div", { class: `fl${box.kernel ? " leaf" : ""}`, role: "button", tabindex: 0, title: `${box.path}\n${text}`, "data-path": box.path,
        style: `left:${left}%;width:${width}%;top:${depth * 25}px;--hue:${PALETTE[[...box.name].reduce((sum, c) => sum + c.charCodeAt(0), 0) % PALETTE.length]}`,
        onclick: on, onkeydown: (event) => event.key === "Enter" && on() }, width > 5 ? text : "");
      if (width <= 5) element.setAttribute("aria-label", text);
      shown.push(element);
    };
    for (;;) { // the boxes around it have the whole width
      const within = [...at.inner.values()].find((box) => path === box.path || path.startsWith(`${box.path}/`));
      if (!within) break;
      put(at, 0, 100);
      [at, depth] = [within, depth + 1];
    }
    for (let row = [[at, 0, 100]]; row.length; depth++) {
      row.forEach((part) => put(...part));
      row = row.flatMap(([box, left, width]) => [...box.inner.values()].sort((a, b) => b.us - a.us).map((inner) => {
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
    const blocks = plan.tensors.map((t, k) => {
      const block = make("rect", { class: "ms-block", x: x(t.first), width: Math.max(1.5, x(t.last + 1) - x(t.first)), y: y(t.offset + t.bytes), height: Math.max(1, y(t.offset) - y(t.offset + t.bytes)),
        fill: PALETTE[k % PALETTE.length], tabindex: 0, role: "button", "aria-label": `${t.name}, ${bytes(t.bytes)}, from ${plan.steps[t.first]} to ${plan.steps[t.last] ?? "the end"}`,
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
