// The graph of the model's nodes, in groups that are closed until asked for.

const MOST = 90; // boxes that are drawn before groups are closed

class Graph {
  /** heat: the fill of a box's rectangle, and the second line of its text, from its nodes. */
  constructor(model, select, view = document.querySelector("#graph .view"), heat = null) {
    Object.assign(this, { model, select, view });
    this.heat = heat ?? ((nodes) => this.byTime(nodes));
    this.tree = model.root;
    this.open = new Set([this.tree]);
    this.grow();
    this.svg = make("svg", { role: "group", "aria-label": "Graph of the model; Tab moves between its boxes" });
    this.view.replaceChildren(this.svg);
    this.box = [0, 0, 100, 100];
    this.pan();
    this.layout();
    new ResizeObserver(() => this.resized()).observe(this.view);
  }

  /** The scale stays when the pane gets another size; a pane that was not shown fits the graph. */
  resized() {
    const { clientWidth: w, clientHeight: h } = this.view;
    const unit = this.box[2] / (this.width || w);
    if (this.width && w) this.setBox(this.box[0], this.box[1], w * unit, h * unit);
    else this.fit();
    this.width = w;
  }

  /** Open groups, level by level, while the drawing stays small. */
  grow() {
    for (;;) {
      const boxes = this.boxes();
      const closed = boxes.filter((box) => box.inner);
      const more = closed.reduce((sum, box) => sum + box.inner.length - 1, 0);
      if (!closed.length || boxes.length + more > MOST) return;
      closed.forEach((box) => this.open.add(box));
    }
  }

  /** What is drawn: open groups give way to what is in them. */
  boxes() {
    const out = [];
    const { nodes } = this.model;
    const aside = (k) => (nodes[k].op === "Constant" || nodes[k].gone?.[0] === "import") && !this.nodes?.has(k);
    const walk = (item) => {
      if (!this.constants && item.nodes.every(aside)) return;
      if (item.inner && this.open.has(item)) item.inner.forEach(walk);
      else out.push(item);
    };
    walk(this.tree);
    return out;
  }

  layout() {
    const boxes = this.boxes();
    this.at = new Map(); // node -> box
    boxes.forEach((box) => box.nodes.forEach((node) => this.at.set(node, box)));
    const graph = new dagre.graphlib.Graph().setGraph({ rankdir: "TB", nodesep: 14, ranksep: 24, marginx: 12, marginy: 12 });
    graph.setDefaultEdgeLabel(() => ({}));
    boxes.forEach((box, k) => {
      box.id = `${this.view.parentNode.id}-${k}`;
      const label = this.label(box);
      const { text } = this.heat(box.nodes);
      if (text) label[1] += ` · ${text}`;
      graph.setNode(box.id, { width: Math.max(70, Math.min(180, 7 * Math.max(label[0].length, label[1].length * 0.9) + 18)), height: 36 });
    });
    this.edges = new Set();
    this.model.nodes.forEach((node, k) => node.to.forEach((other) => {
      const [a, b] = [this.at.get(k), this.at.get(other)];
      if (a && b && a !== b && !this.edges.has(`${a.id} ${b.id}`)) {
        this.edges.add(`${a.id} ${b.id}`);
        graph.setEdge(a.id, b.id);
      }
    }));
    dagre.layout(graph);
    this.draw(boxes, graph);
  }

  /** Boxes are warm by their part of the time. */
  byTime(nodes) {
    const us = nodes.reduce((sum, node) => sum + this.model.nodes[node].us, 0);
    this.most ??= Math.max(...this.model.nodes.map((node) => node.us), 0);
    const part = this.most ? Math.min(1, us / this.most) : 0;
    return { text: us ? micro(us) : "", fill: part > 0.02 ? `color-mix(in srgb, var(--warm) ${Math.round(part * 60)}%, var(--pane))` : "" };
  }

  label(box) {
    if (box.node === undefined) return [short(box.name, 22), `${box.nodes.length} nodes`];
    const { name, op } = this.model.nodes[box.node];
    return [op.replace(/^relax\.(nn\.)?/, "") || "value", short(name.split("/").pop(), 24)];
  }

  draw(boxes, graph) {
    const arrow = make("marker", { id: `arrow-${this.view.parentNode.id}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
      make("path", { d: "M0 0L8 4L0 8z", fill: "currentColor", opacity: 0.5 }));
    const edges = graph.edges().map(({ v, w }) => {
      const points = graph.edge(v, w).points;
      const path = points.map(({ x, y }, k) => `${k ? (k === 1 ? "C" : "") : "M"}${x} ${y}`);
      const d = points.length < 3 ? points.map(({ x, y }, k) => `${k ? "L" : "M"}${x} ${y}`).join("")
        : `M${points[0].x} ${points[0].y}` + points.slice(1).map(({ x, y }, k) => (k < points.length - 2 ? `Q${x} ${y} ${(x + points[k + 2].x) / 2} ${(y + points[k + 2].y) / 2}` : `L${x} ${y}`)).join("");
      return make("path", { class: "ed", d, "marker-end": `url(#arrow-${this.view.parentNode.id})`, "data-a": v, "data-b": w, "data-n": path.length });
    });
    this.parts = boxes.map((box) => {
      const { x, y, width, height } = graph.node(box.id);
      const { text, fill } = this.heat(box.nodes);
      const [head, below] = this.label(box);
      const shown = [`${box.inner ? "▸ " : ""}${head}`, " ", below + (text ? ` · ${text}` : "")];
      const gone = box.node !== undefined && this.model.nodes[box.node].gone;
      const name = box.node === undefined ? box.path : this.model.nodes[box.node].name;
      const rect = make("rect", { x: x - width / 2, y: y - height / 2, width, height });
      rect.style.fill = fill;
      const stripe = box.node === undefined ? null : make("path", { class: "own", d: `M${x - width / 2 + 4} ${y - height / 2 + 5}v${height - 10}`, style: `stroke:${this.model.colour(box.node)}` });
      return make("g", { class: `nd${box.inner ? " group" : ""}${gone ? " gone" : ""}`, tabindex: 0, role: "button", id: box.id,
        "aria-label": `${shown.join("")}: ${name}${gone ? `, removed by ${gone[0]}` : ""}${box.inner ? ", group, opens" : ""}`,
        onclick: (event) => this.press(box, event), onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), this.press(box, event)) },
        rect, stripe, make("title", {}, `${name}${text ? `\n${text}` : ""}${gone ? `\nremoved by ${gone[0]}` : ""}`),
        make("text", { class: "op", x, y: y - 3, "text-anchor": "middle" }, shown[0]), shown[1],
        make("text", { class: "nm", x, y: y + 11, "text-anchor": "middle" }, shown[2]));
    });
    this.drawn = boxes;
    this.whole = [graph.graph().width || 100, graph.graph().height || 100];
    this.svg.replaceChildren(make("defs", {}, arrow), ...edges, ...this.parts);
    const note = this.view.parentNode.querySelector(".note");
    if (note) note.textContent = `${this.model.nodes.length} nodes, ${boxes.length} boxes`;
    if (this.nodes) this.mark(this.nodes);
  }

  press(box, event) {
    if (this.dragged) return;
    if (box.inner && !event.shiftKey) {
      this.open.add(box);
      const selected = this.nodes;
      this.layout();
      this.centre(box.nodes, selected);
    } else this.select(box.nodes);
  }

  /** Open what is around nodes, mark them and what they are joined by. */
  mark(nodes) {
    this.nodes = nodes;
    this.drawn.forEach((box, k) => {
      const hits = box.nodes.reduce((n, node) => n + nodes.has(node), 0);
      this.parts[k].classList.toggle("hit", hits > 0 && box.node !== undefined);
      this.parts[k].classList.toggle("some", hits > 0 && box.node === undefined);
      this.parts[k].setAttribute("aria-pressed", String(hits > 0));
    });
    const lit = new Set(this.drawn.filter((box) => box.nodes.some((n) => nodes.has(n))).map((box) => box.id));
    this.svg.querySelectorAll(".ed").forEach((edge) => edge.classList.toggle("hit", lit.has(edge.dataset.a) && lit.has(edge.dataset.b)));
  }

  reveal(nodes) {
    if (!nodes.size) return;
    let opened = false;
    for (const node of [...nodes].slice(0, 12)) {
      const path = [];
      const find = (item) => item.node === node || (item.inner && item.nodes.includes(node) && (path.push(item), item.inner.some(find)));
      find(this.tree);
      for (const item of path) if (!this.open.has(item)) { this.open.add(item); opened = true; }
    }
    this.nodes = nodes;
    if (opened || [...nodes].some((node) => !this.at.has(node))) this.layout();
    this.mark(nodes);
    this.centre([...nodes]);
  }

  centre(nodes) {
    const rects = this.drawn.flatMap((box, k) => (box.nodes.some((n) => nodes.includes(n)) ? [this.parts[k].firstChild] : []));
    if (!rects.length) return;
    const xs = rects.map((r) => Number(r.getAttribute("x")) + Number(r.getAttribute("width")) / 2);
    const ys = rects.map((r) => Number(r.getAttribute("y")) + 18);
    const [left, top, width, height] = this.box;
    const [x, y] = [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
    const inside = xs.every((v) => v > left && v < left + width) && ys.every((v) => v > top && v < top + height);
    if (!inside) this.setBox(x - width / 2, y - height / 2, width, height);
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.view;
    if (!w || !h) return; // not shown
    const [width, height] = this.whole;
    const scale = Math.min(Math.max(w / width, 0.8), 1.15); // the width fits; a long graph is scrolled
    this.setBox((width - w / scale) / 2, height * scale < h ? (height - h / scale) / 2 : 0, w / scale, h / scale);
  }

  toggleConstants() {
    this.constants = !this.constants;
    this.layout();
    this.fit();
  }

  collapse() {
    this.open = new Set([this.tree]);
    this.grow();
    this.layout();
    this.fit();
  }

  setBox(...box) {
    this.box = box;
    this.svg.setAttribute("viewBox", box.join(" "));
  }

  pan() {
    let from = null;
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x, y, w, h] = this.box;
      const unit = w / this.view.clientWidth;
      if (!event.ctrlKey) return this.setBox(x + event.deltaX * unit, y + event.deltaY * unit, w, h);
      const factor = Math.exp(event.deltaY / 300);
      const at = this.svg.getBoundingClientRect();
      const [px, py] = [(event.clientX - at.left) / at.width, (event.clientY - at.top) / at.height];
      this.setBox(x + w * px * (1 - factor), y + h * py * (1 - factor), w * factor, h * factor);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY, ...this.box]; this.dragged = false; });
    window.addEventListener("pointermove", (event) => {
      if (!from || !event.buttons) return;
      const unit = this.box[2] / this.view.clientWidth;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      if (Math.abs(dx) + Math.abs(dy) > 4) this.dragged = true;
      if (this.dragged) this.setBox(from[2] - dx * unit, from[3] - dy * unit, from[4], from[5]);
    });
    window.addEventListener("pointerup", () => { from = null; setTimeout(() => (this.dragged = false)); });
  }
}
