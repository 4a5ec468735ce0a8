// The first screen: sentences, in which nodes, kernels and passes are links.

class Overview {
  constructor(page) {
    this.page = page;
    this.model = page.model;
    const { title, overview } = this.model;
    byId("overview").replaceChildren(...this.lead(title, overview.run), ...this.costs(overview.costly), this.strip(),
      ...this.list("What was decided, other than the default", "Operators as they are defined, one kernel for each, are the default.", overview.decisions),
      make("p", { class: "dim" }, "A click on a name shows it in all panes. "));
  }

  /** A sentence as elements. */
  said(sentence) {
    return sentence.map((part) => {
      if (typeof part === "string") return part;
      if (part.node !== undefined) return this.page.nodeLink(part.node);
      if (part.kernel) return make("a", { class: "to code", title: part.kernel, ...pressed(() => this.page.pickKernel(part.kernel)) }, part.kernel);
      const pass = this.model.passes.findLastIndex(({ name, group }) => name === part.pass && !group);
      return make("a", { class: "to", ...pressed(() => this.page.compareAt(Math.max(0, pass))) }, part.pass);
    });
  }

  lead(title, [made, ...others]) {
    const us = this.model.us;
    const head = us ? [title, " runs in ", make("strong", {}, micro(us))] : [title];
    return [make("h2", { class: "lead" }, ...head), make("p", {}, ...this.said(made)), ...others.map((one) => make("p", {}, ...this.said(one)))];
  }

  costs(costly) {
    if (!costly.length) return [];
    const cards = costly.map(({ nodes, us, share, why }) => {
      const more = nodes.length > 1 ? [make("span", { class: "dim" }, ` and ${nodes.length - 1} more by the same kernel`)] : [];
      return make("div", { class: "cost", style: `--own:${this.model.colour(nodes[0])}` }, make("div", { class: "amount" }, make("strong", {}, percent(share)), us ? make("span", { class: "dim" }, micro(us)) : null),
        make("div", {}, make("h4", {}, this.page.nodeLink(nodes[0]), make("span", { class: "dim" }, ` ${this.model.nodes[nodes[0]].op}`), ...more),
          ...why.map((sentence) => make("p", {}, ...this.said(sentence)))));
    });
    return [make("h3", {}, this.model.us ? "Where the time goes" : "Where the operations are"), make("div", { class: "costs" }, ...cards)];
  }

  /** The time of all nodes in the order of the file, as wide as it is. */
  strip() {
    const timed = this.model.nodes.map((node, k) => ({ k, us: node.us })).filter(({ us }) => us > 0);
    if (!timed.length) return null;
    const parts = timed.map(({ k, us }) => make("i", { style: `flex:${us};background:${this.model.colour(k)}`, title: `${this.model.nodes[k].name} · ${micro(us)}`, onclick: () => this.page.pickNodes([k]) }));
    return make("figure", {}, make("div", { class: "strip", "aria-hidden": "true" }, ...parts), make("figcaption", { class: "dim" }, "All nodes in order, each as wide as its time and in the colour that it has everywhere."));
  }

  list(head, note, sentences) {
    return sentences.length ? [make("h3", {}, head), make("p", { class: "dim" }, note), make("ul", {}, ...sentences.map((one) => make("li", {}, ...this.said(one))))] : [];
  }
}
