"use strict";
// The data of the page, and questions about it.

async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

class Model {
  constructor(data) {
    Object.assign(this, data);
    this.members = data.sets.map((set) => new Set(set));
    this.byName = new Map(data.nodes.map((node, k) => [node.name, k]));
    this.kernelOf = new Map(data.kernels.map((kernel) => [kernel.name, kernel]));
    // The functions after each pass, the passes that changed anything, and the history of each name.
    this.history = new Map();
    let now = new Map();
    this.after = data.passes.map((pass, k) => {
      if (pass.functions) {
        now = new Map(now);
        for (const [name, text] of Object.entries(pass.functions)) {
          if (text < 0) now.delete(name);
          else {
            now.set(name, text);
            if (!this.history.has(name)) this.history.set(name, []);
            this.history.get(name).push([k, text]);
          }
        }
      }
      return now;
    });
    this.changed = data.passes.flatMap((pass, k) => (pass.changed && !pass.group ? [k] : []));
    // The time of each node, by kernel.
    for (const node of data.nodes) Object.assign(node, { us: 0, parts: [] });
    for (const { name, us, shares } of data.kernels)
      for (const [k, share] of us ? shares : []) {
        data.nodes[k].us += share * us;
        data.nodes[k].parts.push([name, share * us]);
      }
    this.total = data.kernels.reduce((sum, kernel) => sum + kernel.us, 0);
    this.root = { name: "", path: "", inner: this.branches(this.tree, ""), nodes: data.nodes.map((_, k) => k) };
    this.lastRelax = this.changed.filter((k) => this.relaxAt(k) >= 0).pop() ?? 0;
  }

  /** The parts of a group with their paths, each once, and nodes; a leaf has only its node. */
  branches(parts, above) {
    const used = new Set();
    return parts.map((part, k) => {
      const [node, name] = typeof part === "number" ? [part, this.label(part)] : [undefined, part[0]];
      const path = used.has(`${above}/${name}`) ? `${above}/${name}~${k}` : `${above}/${name}`;
      used.add(path);
      if (node !== undefined) return { node, name, path, nodes: [node] };
      const inner = this.branches(part[1], path);
      return { name, path, inner, nodes: inner.flatMap((one) => one.nodes) };
    });
  }

  /** The last part of a node's name. */
  label(k) {
    const { name, op } = this.nodes[k];
    return name.split("/").filter(Boolean).pop() ?? op;
  }

  /** The colour of a node: the same wherever it is seen. */
  colour(k) {
    return `oklch(var(--mark-l) var(--mark-c) ${(this.nodes[k].hue * 150 + 25) % 360})`;
  }

  /** The colours of a set of nodes as a background: one of each, up to four. */
  stripe(set) {
    const nodes = this.members[set];
    if (!nodes.size) return "none";
    const some = [...nodes].slice(0, 4).map((k) => this.colour(k));
    if (some.length === 1) return some[0];
    return `linear-gradient(${some.map((colour, k) => `${colour} ${(100 * k) / some.length}% ${(100 * (k + 1)) / some.length}%`).join(",")})`;
  }

  /** The lines of the graph program that call a kernel, in its last text. */
  callers(kernel) {
    const id = this.relaxAt(this.lastRelax);
    const calls = new RegExp(`\\b${kernel.replace(/\W/g, "\\$&")}\\b\\s*[(,]`);
    return id < 0 ? [] : this.lines(id).flatMap((line, k) => (calls.test(line) && !/^\s*def /.test(line) ? [k] : []));
  }

  /** The lines of a kernel's loops around one of its lines, outermost first. */
  loopsAround(kernel, line) {
    const found = [];
    for (let at = kernel.loops?.[line - 1] ?? 0; at; at = kernel.loops[at - 1]) found.unshift(at);
    return found;
  }

  /** The lines of a text, split once. */
  lines(id) {
    const text = this.texts[id];
    return (text.rows ??= text.t.split("\n"));
  }

  /** The text of a function after a pass; before it exists its first, after it is gone its last. */
  textAt(name, pass) {
    const there = this.after[pass].get(name);
    if (there !== undefined) return there;
    const rows = this.history.get(name) ?? [];
    const before = rows.filter(([k]) => k <= pass).pop();
    return (before ?? rows[0] ?? [0, -1])[1];
  }

  relaxAt(pass) {
    const functions = this.after[pass];
    const id = functions.get("main") ?? [...functions.values()].find((t) => this.texts[t].kind === "relax");
    return id !== undefined && this.texts[id].kind === "relax" ? id : -1;
  }

  /** Whether a set of nodes and a selection have one in common. */
  touches(set, nodes) {
    if (!nodes.size) return false;
    for (const node of this.members[set]) if (nodes.has(node)) return true;
    return false;
  }

  kernelsOf(nodes) {
    const found = this.kernels.filter((kernel) => this.touches(kernel.set, nodes));
    const own = found.filter((kernel) => !kernel.graph); // a graph function only calls
    return own.length ? own : found;
  }
}

const make = (tag, attributes = {}, ...inner) => {
  const svg = ["svg", "g", "rect", "text", "path", "line", "circle", "polyline", "title", "defs", "marker"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...inner.filter((part) => part !== null && part !== undefined));
  return element;
};
/** What to do on a click, and on the keys of a button. */
const pressed = (on) => ({ tabindex: 0, role: "button", onclick: on, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), on()) });
const percent = (part) => `${(100 * part).toFixed(part < 0.0995 ? 1 : 0)}%`;
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
/** The theme that was chosen before, or the system's; the function changes it. */
const themed = () => {
  const root = document.documentElement;
  const change = (given) => {
    root.dataset.theme = given ?? (root.dataset.theme === "dark" ? "light" : "dark");
    try { if (!given) localStorage.setItem("loopwright-theme", root.dataset.theme); } catch { /* a page without storage */ }
  };
  let before = null;
  try { before = localStorage.getItem("loopwright-theme"); } catch { /* a page without storage */ }
  change(before ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  return change;
};
const byId = (id) => document.getElementById(id);
const short = (name, most = 24) => (name.length > most ? "…" + name.slice(1 - most) : name);
/** The last parts of a name that fit. */
const tail = (name, most = 40) => {
  const parts = name.split("/");
  while (parts.length > 1 && parts.join("/").length + 2 > most) parts.shift();
  return parts.length === name.split("/").length ? name : `…/${short(parts.join("/"), most)}`;
};
const bytes = (n) => (n >= 1 << 20 ? `${(n / (1 << 20)).toFixed(1)} MiB` : n >= 1024 ? `${(n / 1024).toFixed(1)} KiB` : `${n} B`);
const micro = (us) => (us >= 1000 ? `${(us / 1000).toFixed(2)} ms` : `${us.toFixed(us < 10 ? 2 : 1)} µs`);
