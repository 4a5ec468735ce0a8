"""`loopwright explore MODEL`: the page of a model in a file, or served to browsers of this machine."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..driver.console import say
from .explored import Explored
from .page import page_data
from .pair import data_of_page, pair_page
from .template import html_of


def explore(
    model: Path,
    target: str,
    out: Path | None,
    serve: bool,
    port: int,
    feeds_of: Callable[[Any], dict[str, Any]],
    number: int,
    against: str = "",
) -> None:
    """Write the page to `out`, by default MODEL.html in this folder, or serve it until interrupted.
    number: how many runs are timed, with the inputs that `feeds_of` returns for the executable;
    against: the one before, with which the model is compared: another model file, a page that was
    written (.html), or a target."""

    def data(file: Path, target: str) -> dict[str, Any]:
        explored = Explored.compiled(file, target)
        inputs = feeds_of(explored.exe) if number and explored.exe.runs else None
        return page_data(explored, inputs, title=file.name, number=number)

    other = Path(against)
    if against and other.suffix == ".html":
        before = data_of_page(other)
    elif against:
        is_file = other.is_file() or (other.suffix and " " not in against)
        before = data(other, target) if is_file else data(model, against)
    after = data(model, target)
    text = pair_page(before, after) if against else html_of(after)
    if out is not None or not serve:
        out = out or Path(f"{model.stem}.html")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        say(f"{out}: {out.stat().st_size} bytes")
    if serve:
        with server(text, port) as serving:
            say(f"http://127.0.0.1:{serving.server_address[1]}/ (Ctrl+C ends it)")
            try:
                serving.serve_forever()
            except KeyboardInterrupt:
                say("ended")


def server(text: str, port: int = 0) -> ThreadingHTTPServer:
    """A server of one page, for this machine only. port: 0 for any that is free."""
    body = text.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served = self.path.split("?")[0] in ("/", "/index.html")
            # Another site's name for this address is not answered.
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            served = served and host in ("127.0.0.1", "localhost")
            self.send_response(200 if served else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body) if served else 0))
            self.end_headers()
            if served:
                self.wfile.write(body)

        def log_message(self, *words: str) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)
