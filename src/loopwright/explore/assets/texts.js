// Panes of text: only the visible lines are in the document, each with the nodes it came from.

const HEIGHT = 18;
const WORDS = {
  tir: /(#.*)|("[^"]*")|\b(def|for|in|if|else|with|while|assert|return|and|or|not|range|class)\b|\b([TRI]\.[\w.]+)|(?<![\w.])(-?\d[\w.]*)/g,
  llvm: /(;.*)|("[^"]*")|\b(define|declare|call|load|store|br|ret|phi|icmp|fcmp|select|getelementptr|add|sub|mul|fadd|fmul|fsub|fdiv|switch|tail|inbounds|nuw|nsw)\b|([@%][\w.$-]+)|(?<![\w.%@])(-?\d[\w.]*)/g,
  asm: /(#.*|\/\/.*)|("[^"]*")|^\s+([a-z][\w.]*)|(%\w+|\.L\w+)|(\$?-?\b\d\w*)/g,
};
WORDS.relax = WORDS.tir;
const CLASSES = ["c", "s", "k", "f", "n"];

const coloured = (text, kind) => {
  const parts = document.createDocumentFragment();
  let end = 0;
  for (const found of text.slice(0, 2000).matchAll(WORDS[kind])) {
    const group = found.slice(1).findIndex((part) => part !== undefined);
    const word = found[group + 1];
    const start = found.index + found[0].lastIndexOf(word);
    parts.append(text.slice(end, start), make("span", { class: CLASSES[group] }, word));
    end = start + word.length;
  }
  parts.append(text.slice(end));
  return parts;
};

class TextPane {
  constructor(id, model, select) {
    this.id = id;
    this.pane = byId(id);
    this.kind = id;
    this.model = model;
    this.select = select;
    this.rows = [];
    this.text = -1;
    this.at = -1;
    this.body = make("div", { class: "body" });
    this.box = make("div", { class: "text", tabindex: 0, role: "listbox", "aria-label": `${id} lines`,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event) }, this.body);
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest(".ln");
      if (row) this.choose(Number(row.dataset.row));
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  /** Show a text, or what changed from another one (-1: none). */
  show(text, note, base = -1, empty = "nothing here") {
    const key = `${text}|${base}`;
    this.pane.querySelector(".note").textContent = note;
    if (key === this.key_) return;
    this.key_ = key;
    this.put(text, text < 0 ? [] : base < 0 || base === text ? this.plain(text) : this.compared(base, text), this.kind, note, empty);
  }

  /** Show rows of a text of a kind. */
  put(text, rows, kind, note, empty) {
    Object.assign(this, { text, rows, kind, at: -1 });
    this.pane.querySelector(".note").textContent = note;
    const view = this.pane.querySelector(".view");
    if (text < 0) {
      view.replaceChildren(make("div", { class: "empty" }, empty));
      return;
    }
    const longest = this.rows.reduce((most, row) => Math.max(most, row.t.length), 0);
    this.body.style.height = `${this.rows.length * HEIGHT + 8}px`;
    this.body.style.minWidth = `max(100%, ${Math.min(longest, 2000) * 7.3 + 80}px)`;
    if (this.box.parentNode !== view) view.replaceChildren(this.box);
    this.box.scrollTop = 0;
    this.draw();
  }

  plain(id, change = "") {
    const { o, lines } = this.model.texts[id];
    return this.model.lines(id).map((t, k) => ({ t, n: k + 1, set: Math.abs(o[k]), weak: o[k] < 0, tir: lines ? lines[k] : k + 1, change, id }));
  }

  compared(base, id) {
    const [old, now] = [this.plain(base, "del"), this.plain(id)];
    const rows = [];
    let [i, j] = [0, 0];
    const parts = Diff.diffArrays(this.model.lines(base), this.model.lines(id));
    for (const part of parts) {
      const count = part.count ?? part.value.length;
      for (let k = 0; k < count; k++) {
        if (part.removed) rows.push(old[i++]);
        else {
          const row = now[j++];
          if (part.added) row.change = "add";
          else i++;
          rows.push(row);
        }
      }
    }
    return rows;
  }

  /** Which lines are marked: by nodes, and by lines of the lowered kernel. */
  mark(state, exactText) {
    this.state = state;
    this.exact = exactText ?? ((row) => false);
    this.draw();
  }

  isHit(row) {
    const nodes = this.state?.nodes;
    return nodes && this.model.touches(row.set, nodes);
  }

  reveal() {
    const exact = this.rows.findIndex((row) => this.exact(row));
    const hit = this.rows.findIndex((row) => !row.weak && this.isHit(row));
    const k = exact >= 0 ? exact : hit >= 0 ? hit : this.rows.findIndex((row) => this.isHit(row));
    if (k < 0) return;
    const top = k * HEIGHT;
    if (top < this.box.scrollTop || top > this.box.scrollTop + this.box.clientHeight - 2 * HEIGHT)
      this.box.scrollTop = Math.max(0, top - this.box.clientHeight / 3);
    this.draw();
  }

  draw() {
    if (this.text < 0 || !this.box.isConnected) return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - 10);
    const last = Math.min(this.rows.length, first + Math.ceil((this.box.clientHeight || 600) / HEIGHT) + 24);
    const shown = [];
    for (let k = first; k < last; k++) {
      const row = this.rows[k];
      const exact = this.exact?.(row);
      const classes = ["ln", row.change, exact ? "exact" : this.isHit(row) ? (row.weak ? "weak" : "hit") : "", k === this.at ? "at" : ""];
      const why = row.change !== "del" && this.why ? this.why(row) : "";
      shown.push(make("div", { class: classes.filter(Boolean).join(" "), style: `top:${k * HEIGHT}px`, "data-row": k,
        id: `${this.id}-${k}`, role: "option", "aria-setsize": this.rows.length, "aria-posinset": k + 1,
        "aria-selected": String(Boolean(exact || k === this.at)), "aria-label": row.change === "gap" ? "no line" : null },
        make("i", { style: `--own:${this.model.stripe(row.set ?? 0)}`, class: row.weak ? "around" : null, title: this.names(row) }, row.change === "add" ? "+" : row.change === "del" ? "−" : String(row.n)),
        coloured(row.t, this.kind), why ? make("span", { class: "why", title: why, "aria-label": why }, "  ●") : null));
    }
    this.body.replaceChildren(...shown);
    if (this.at >= first && this.at < last) this.box.setAttribute("aria-activedescendant", `${this.id}-${this.at}`);
    else this.box.removeAttribute("aria-activedescendant"); // only the visible lines are in the document
  }

  /** The nodes that a line came from, in words. */
  names(row) {
    const nodes = [...this.model.members[row.set ?? 0]];
    const more = nodes.length > 3 ? ` and ${nodes.length - 3} more` : "";
    return nodes.length ? `${row.weak ? "around " : ""}${nodes.slice(0, 3).map((k) => this.model.nodes[k].name).join(", ")}${more}` : null;
  }

  /** Choose a line and show it. */
  jump(k) {
    this.choose(k);
    this.box.scrollTop = Math.max(0, k * HEIGHT - this.box.clientHeight / 3);
    this.draw();
  }

  choose(k) {
    this.at = k;
    this.select(this.rows[k], this);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step) {
      this.at = Math.min(this.rows.length - 1, Math.max(0, this.at + step));
      const top = this.at * HEIGHT;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top > this.box.scrollTop + this.box.clientHeight - HEIGHT) this.box.scrollTop = top - this.box.clientHeight + HEIGHT;
      this.draw();
    } else if (event.key === "Enter" && this.at >= 0) this.choose(this.at);
    else return;
    event.preventDefault();
  }
}
