"""Look at the built site in headless Chromium: python -m tools.check_site [build/site]

Each page is loaded in a wide and a narrow frame, light and dark. Reported are texts of low contrast (WCAG 2.1: 4.5, large text
3), images without a text, headings that skip a level, pages wider than the screen, links to nothing, and errors of the console.
"""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from html import unescape
from pathlib import Path

CHECK = r"""<!doctype html><meta charset="utf-8"><iframe id="f"></iframe><pre id="result">unfinished</pre><script>
const pages = %s, frame = document.getElementById("f"), found = new Set(), links = new Map(), ids = new Map();
const wait = ms => new Promise(done => setTimeout(done, ms));
const open = url => new Promise(done => { frame.onload = done; frame.src = url; });
const parse = text => (text.match(/[\d.]+/g) || []).map(Number);
const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b; };
function over(top, below) { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)); }
function ground(node, win) {
  const layers = [];
  for (let n = node; n; n = n.parentElement) layers.push(parse(win.getComputedStyle(n).backgroundColor));
  return layers.reverse().filter(c => c.length > 2).reduce((below, c) => over(c, below), [255, 255, 255]);
}
function contrast(doc, win, say) {
  const seen = new Set();
  const walk = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  for (let t = walk.nextNode(); t; t = walk.nextNode()) {
    const node = t.parentElement, style = win.getComputedStyle(node);
    if (!t.data.trim() || !node.checkVisibility({opacityProperty: true, visibilityProperty: true}) ||
        node.closest("script, style, svg, .headerlink, .md-search")) continue;
    const back = ground(node, win), fore = over(parse(style.color), back);
    const [a, b] = [light(fore), light(back)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const where = `${node.tagName}.${node.className}`;
    if (ratio < (large ? 3 : 4.5) && !seen.has(where)) say(`contrast ${ratio.toFixed(2)} of ${where}: ${t.data.trim().slice(0, 30)}`);
    if (ratio < (large ? 3 : 4.5)) seen.add(where);
  }
}
async function main() {
  for (const page of pages) for (const [width, scheme] of [[1400, "default"], [400, "slate"]]) {
    frame.style = `width:${width}px;height:900px`;
    await open(page);
    const win = frame.contentWindow, doc = frame.contentDocument, say = what => found.add(`${page} (${width}, ${scheme}): ${what}`);
    const style = doc.createElement("style");
    style.textContent = "* { transition: none !important; animation: none !important }";
    doc.head.append(style);
    doc.body.setAttribute("data-md-color-scheme", scheme);
    await wait(50);
    contrast(doc, win, say);
    if (doc.documentElement.scrollWidth > width + 1) say(`is ${doc.documentElement.scrollWidth} wide`);
    if (width < 1000) continue;
    for (const i of doc.images) if (!i.alt.trim()) say(`no text for ${i.src}`);
    for (const i of doc.images) if (i.complete && !i.naturalWidth) say(`no picture at ${i.src}`);
    let last = 0;
    for (const h of doc.querySelectorAll("article h1, article h2, article h3, article h4, article h5")) {
      if (+h.tagName[1] > last + 1) say(`heading ${h.tagName} after H${last}: ${h.textContent}`);
      last = +h.tagName[1];
    }
    if (doc.querySelectorAll("h1").length !== 1) say(`${doc.querySelectorAll("h1").length} main headings`);
    ids.set(win.location.pathname, new Set([...doc.querySelectorAll("[id], a[name]")].map(n => n.id || n.name)));
    for (const a of doc.querySelectorAll("a[href]")) if (a.origin === location.origin) links.set(a.href, page);
  }
  for (const [href, page] of links) {
    const url = new URL(href), known = ids.get(url.pathname);
    if (!known && !(await fetch(url.pathname, {method: "HEAD"})).ok) found.add(`${page}: no page ${url.pathname}`);
    if (known && url.hash && !known.has(decodeURIComponent(url.hash.slice(1)))) found.add(`${page}: no anchor ${href}`);
  }
  document.getElementById("result").textContent = JSON.stringify([...found]);
}
main();
</script>"""


class Server(http.server.SimpleHTTPRequestHandler):
    """The site, and the page that checks it."""

    page = b""

    def do_GET(self) -> None:
        if self.path != "/__check__":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def problems(site: Path, pages: list[str] | None = None) -> list[str]:
    """What is wrong with the pages, all by default. Raises RuntimeError where Chromium does not finish."""
    chromium = shutil.which("chromium") or "google-chrome"
    if pages is None:
        pages = sorted(
            f"/{p.relative_to(site).parent}/".replace("/./", "/") for p in site.rglob("index.html")
        )
    Server.page = (CHECK % json.dumps(pages)).encode()
    handler = functools.partial(Server, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
        ]
        command += ["--virtual-time-budget=100000000", "--window-size=1500,1000", "--dump-dom"]
        url = f"http://127.0.0.1:{server.server_port}/__check__"
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=900)
        server.shutdown()
    result = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    if result is None or not result[1].startswith("["):
        raise RuntimeError(f"the check did not finish: {done.stderr[-2000:]}")
    console = re.findall(r'CONSOLE[:(]\d+\)?\] "(.*?)", source: (\S+)', done.stderr)
    return [
        *json.loads(unescape(result[1])),
        *(f"console: {text} in {where}" for text, where in console),
    ]


def main() -> None:
    found = problems(Path(sys.argv[1] if sys.argv[1:] else "build/site"), sys.argv[2:] or None)
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
