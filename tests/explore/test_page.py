"""The page in headless Chromium: it opens fast, asks nobody, and marks what belongs together."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import typer

import loopwright as lw
from loopwright.driver.cli import app
from loopwright.explore.command import server

from .browser import check_with_axe
from .conftest import DIGITS, ROOT

PICTURES = ROOT / "docs" / "pictures"

SLOW = ("large", "minilm-l3", "centerface")
REAL = ["digits", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]

# The marked lines of a pane, by their numbers from 0; strong ones only.
HITS = """
const pane = page.panes[arguments[0]];
return pane.rows.flatMap((row, k) => (pane.exact(row) || (pane.isHit(row) && !row.weak) ? [k] : []));
"""


@pytest.mark.no_roundtrip  # whole models
@pytest.mark.parametrize("name", REAL)
def test_pages_open_whole_and_alone(browser, written, name):
    file = written(name)
    assert file.stat().st_size < 20e6
    # Of some openings the fastest: the machine may be busy with other things.
    assert min(browser.open(f"file://{file}") for _ in range(3)) < 3
    boxes = browser.run("return document.querySelectorAll('#graph .nd').length")
    assert 5 <= boxes <= 120
    if name == "large":
        assert browser.run("return page.model.nodes.length") == 5000
    assert browser.errors() == [] and browser.requests() == []
    browser.run("page.pickNodes([page.model.nodes.findLastIndex((node) => !node.gone)])")
    assert browser.run(HITS, "tir") and browser.run(HITS, "asm")
    assert browser.errors() == [] and browser.requests() == []


@pytest.mark.no_roundtrip
def test_from_an_instruction_to_the_node_and_back(shown):
    browser = shown("digits", "#kernel=fused_matmul_add")
    pick = """
        const {rows, box} = page.panes.asm;
        const k = rows.findIndex((row) => row.tir && !row.weak && /fmadd/.test(row.t));
        const at = k >= 0 ? k : rows.findIndex((row) => row.tir && !row.weak && /mul/.test(row.t));
        box.scrollTop = at * 18 - 60; page.panes.asm.draw();
        return at;
    """
    row = browser.run(pick)
    browser.click(f"#asm-{row}")
    nodes = browser.run("return [...page.state.nodes].map((k) => page.model.nodes[k].name)")
    assert nodes == ["/fc/MatMul"]
    (line,) = browser.run(
        "const p = page.panes.tir; return p.rows.filter((r) => p.exact(r)).map((r) => r.t)"
    )
    assert "matmul_intermediate[" in line
    (relax,) = browser.run(
        "const p = page.panes.relax;"
        "return p.rows.filter((r) => p.isHit(r) && /fused_matmul_add\\(/.test(r.t)).map((r) => r.t)"
    )
    assert "fused_matmul_add(" in relax
    lit = browser.run(
        "return [...document.querySelectorAll('#graph .nd.hit .nm')].map((e) => e.textContent)"
    )
    assert len(lit) == 1 and lit[0].startswith("MatMul")
    # Back: the node's box marks that instruction, among its own.
    browser.click("#clear")
    assert browser.run(HITS, "asm") == []
    box = browser.run(
        "const k = page.model.byName.get('/fc/MatMul');"
        "const box = page.graph.at.get(k); page.graph.centre([k]); return box.id"
    )
    browser.click(f"#{box}")
    hits = browser.run(HITS, "asm")
    assert row in hits and len(hits) > 20
    others = browser.run("return page.panes.asm.rows.filter((r) => r.t.trim()).length")
    assert len(hits) < others
    assert browser.errors() == []


# The kernel with most time that has such an instruction, and the instruction's row in its assembly.
FUSED = """
const codes = page.model.kernels.filter((k) => k.asm !== undefined && !k.graph).sort((a, b) => b.us - a.us);
for (const kernel of codes) {
  page.pickKernel(kernel.name);
  const {rows, box} = page.panes.asm;
  const k = rows.findIndex((row) => row.tir && row.set && !row.weak && /fn?m(add|sub)/.test(row.t));
  if (k < 0) continue;
  page.clear();
  box.scrollTop = k * 18 - 60; page.panes.asm.draw();
  return k;
}
"""


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", REAL)
def test_clicks_slider_differences_search_and_address(shown, name):
    browser = shown(name)
    run = browser.run
    # An instruction: its statement, its call, its node.
    row = run(FUSED)
    assert row is not None
    browser.click(f"#asm-{row}")
    nodes = run("return [...page.state.nodes]")
    assert nodes and not run("return page.model.nodes[page.state.nodes.values().next().value].gone")
    (line,) = run(
        "const p = page.panes.tir; return p.rows.filter((r) => p.exact(r)).map((r) => r.t)"
    )
    assert "*" in line and "[" in line
    kernel = run("return page.state.kernel")
    calls = run(
        "const p = page.panes.relax; return p.rows.filter((r) => p.isHit(r)).map((r) => r.t)"
    )
    assert any(kernel in call for call in calls)
    assert run("return document.querySelectorAll('#graph .nd.hit').length") >= 1
    # The node's box: its instructions.
    node = nodes[0]
    browser.click("#clear")
    assert run(HITS, "asm") == []
    run("page.graph.reveal(new Set([arguments[0]])); page.graph.mark(new Set())", node)
    browser.click("#" + run("return page.graph.at.get(arguments[0]).id", node))
    assert run("return [...page.state.nodes]") == [node] and row in run(HITS, "asm")
    # The slider: another pass; the difference; back.
    run("document.getElementById('slider').focus()")
    pass_of = "return page.model.passes[page.state.pass].name"
    last = run(pass_of)
    browser.press(*["\ue012"] * 3)  # left
    assert run(pass_of) == run("return document.getElementById('shown').textContent") != last
    run("page.toPass(page.model.changed.find((k) => page.model.passes[k].name === 'FuseTIR'))")
    browser.press("d")
    assert {"add", "del"} <= set(run("return page.panes.relax.rows.map((r) => r.change)"))
    # The search finds the node; the address brings all of it back.
    text = run("return page.model.nodes[arguments[0]].name", node)
    browser.press("\ue00c", "/", text, "\ue007")
    assert node in run("return [...page.state.nodes]")
    state = "const s = page.state; return [[...s.nodes], s.pass, s.base, s.kernel, s.line, s.tab]"
    before, address = run(state), run("return location.href")
    browser.open(address)
    assert run(state) == before
    assert browser.errors() == [] and browser.requests() == []


@pytest.mark.no_roundtrip
def test_flames(shown):
    browser = shown("digits", "#tab=flame")
    widths = (
        "return [...document.querySelectorAll('.fl')].map((e) => "
        "[e.dataset.path, parseFloat(e.style.width), parseFloat(e.style.top)])"
    )
    rows = browser.run(widths)
    assert rows[0] == ["", 100, 0]
    first = [(path, width) for path, width, top in rows if top == rows[1][2]]
    assert {"/conv1", "/fc"} <= {path for path, _ in first}
    assert sum(width for _, width in first) == pytest.approx(100, abs=1.5)
    browser.run("document.querySelector(\".fl[data-path='/fc']\").click()")  # it may be narrow
    around = [path for path, width, _ in browser.run(widths) if width == 100]
    assert around[:2] == ["", "/fc"]
    names = browser.run("return [...page.state.nodes].map((k) => page.model.nodes[k].name)")
    assert set(names) == {"/fc/MatMul", "/fc/Add"}
    browser.press("\ue007")  # still there for the keyboard
    address = browser.run("return location.href")
    assert "flame=%2Ffc" in address
    browser.open(address)
    assert [path for path, width, _ in browser.run(widths) if width == 100] == around
    browser.click(".fl.leaf[data-path$='fused_matmul_add']")
    assert browser.run("return page.state.kernel") == "fused_matmul_add"
    browser.click(".fl[data-path='']")
    assert browser.run(widths)[1:] == rows[1:] and browser.run("return page.state.nodes.size") == 0
    assert browser.errors() == []


@pytest.mark.slow
@pytest.mark.no_roundtrip
def test_an_instruction_of_a_shared_kernel_comes_from_all_its_nodes(shown):
    """minilm-l3: its query, key and value products are one kernel."""
    browser = shown("minilm-l3", "#kernel=fused_matmul_add2")
    row = browser.run(
        "const {rows, box} = page.panes.asm;"
        "const k = rows.findIndex((row) => row.tir && !row.weak && /fmadd/.test(row.t));"
        "box.scrollTop = k * 18 - 60; page.panes.asm.draw(); return k"
    )
    assert row >= 0
    browser.click(f"#asm-{row}")
    picked = browser.run("return [...page.state.nodes].map((k) => page.model.nodes[k])")
    assert len(picked) >= 3 and {node["op"] for node in picked} == {"MatMul"}
    assert any("query/MatMul" in node["name"] for node in picked)
    lines = browser.run(
        "const p = page.panes.tir; return p.rows.filter((r) => p.exact(r)).map((r) => r.t)"
    )
    assert len(lines) == 1 and "matmul" in lines[0]
    calls = browser.run(
        "const p = page.panes.relax; return p.rows.filter((r) => p.isHit(r)).map((r) => r.t)"
    )
    assert sum("fused_matmul_add2(" in text or "fused_matmul_add2," in text for text in calls) >= 3
    browser.click("#clear")
    assert browser.run(HITS, "asm") == []
    name = next(node["name"] for node in picked if "query/MatMul" in node["name"])
    browser.run("page.pickNodes([page.model.byName.get(arguments[0])])", name)
    assert row in browser.run(HITS, "asm")
    assert browser.errors() == [] and browser.requests() == []


@pytest.mark.no_roundtrip
def test_slider_and_differences(shown):
    browser = shown("digits")
    names = browser.run("return page.model.changed.map((k) => page.model.passes[k].name)")
    assert names[0] == "import" and "FuseTIR" in names
    browser.run(
        "const s = document.getElementById('slider'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        names.index("FuseTIR"),
    )
    assert browser.run("return document.getElementById('shown').textContent") == "FuseTIR"
    text = browser.run("return page.panes.relax.rows.map((r) => r.t).join('\\n')")
    assert "R.call_tir(fused_conv2d_relu" in text or "call_tir(cls.fused_conv2d_relu" in text
    browser.press("d")
    kinds = browser.run("return page.panes.relax.rows.map((r) => r.change)")
    assert {"add", "del", ""} <= set(kinds)
    added = browser.run(
        "return page.panes.relax.rows.filter((r) => r.change === 'add').map((r) => r.t)"
    )
    assert any("call_tir" in line for line in added)
    browser.press("d")
    assert set(browser.run("return page.panes.relax.rows.map((r) => r.change)")) == {""}
    browser.press("[")
    assert browser.run("return document.getElementById('shown').textContent") == "FuseOps"
    assert browser.run("return document.querySelectorAll('#passes li').length") < 40
    browser.click("#all")
    assert browser.run("return document.querySelectorAll('#passes li').length") > 40
    assert browser.errors() == []


@pytest.mark.no_roundtrip
def test_search_and_the_address(shown, browser, written):
    shown("digits")
    browser.press("/")
    browser.press("conv2")
    found = browser.run(
        "return [...document.querySelectorAll('#found li')].map((e) => e.innerText)"
    )
    assert any("/conv2" in text for text in found)
    browser.press("\ue007")  # Enter
    address = browser.run("return location.href")
    assert "nodes=%2Fconv2" in address
    before = browser.run(HITS, "asm")
    assert before
    browser.open(address)
    assert browser.run("return [...page.state.nodes]") == [3]
    assert browser.run(HITS, "asm") == before
    assert browser.run("return page.state.kernel") == "fused_conv2d1_relu1"


@pytest.mark.no_roundtrip
def test_without_a_mouse(shown):
    browser = shown("digits")
    browser.press("3")
    assert browser.run("return document.activeElement.closest('.pane').id") == "tir"
    for _ in range(30):
        browser.press("\ue015")  # down
    browser.press("\ue007")
    assert browser.run("return page.state.nodes.size") > 0
    browser.press("1")
    browser.press("\ue007")
    assert browser.run("return [...page.state.nodes]") == [0]
    browser.press("\ue00c")  # Escape
    assert browser.run("return page.state.nodes.size") == 0
    theme = browser.run("return document.documentElement.dataset.theme")
    browser.press("t")
    assert browser.run("return document.documentElement.dataset.theme") != theme


@pytest.mark.no_roundtrip
def test_screen_readers_have_names_for_everything(shown):
    browser = shown("digits")
    landmarks = browser.run(
        "return [...document.querySelectorAll('header,nav,main,aside,section')].map((e) => "
        "[e.tagName, e.getAttribute('aria-label') || ''])"
    )
    assert [tag for tag, _ in landmarks].count("SECTION") == 6
    assert all(label for tag, label in landmarks if tag in ("SECTION", "NAV", "ASIDE"))
    nameless = browser.run(
        "return [...document.querySelectorAll('button,input,select,[role=button],[role=listbox],[role=option]')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.title || e.innerText || e.textContent"
        " || e.labels?.[0]?.textContent)).map((e) => e.outerHTML)"
    )
    assert nameless == []


@pytest.mark.slow
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", ["times", "nodes", "flame", "roof", "memory"])
def test_axe_finds_no_fault(shown, axe, theme, tab):
    check_with_axe(
        shown("digits", f"#kernel=fused_matmul_add&nodes=/fc/MatMul&tab={tab}"), axe, theme, tab
    )


@pytest.mark.slow
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["centerface", "minilm-l3", "large"])
def test_axe_finds_no_fault_in_large_pages(shown, axe, theme, name):
    browser = shown(name)
    browser.run("page.pickNodes([page.model.nodes.findLastIndex((node) => !node.gone)])")
    check_with_axe(browser, axe, theme)


@pytest.mark.no_roundtrip
def test_pictures(shown, request):
    """With --update-golden, the pictures of the documents."""
    browser = shown("digits", "#kernel=fused_matmul_add&nodes=/fc/MatMul")
    browser.resize(1280, 800)
    browser.run(
        "page.theme('light'); const {asm} = page.panes;"
        "const k = asm.rows.findIndex((r) => r.tir && !r.weak && /fmadd|mul/.test(r.t));"
        "page.jump('asm', k); page.graph.fit()"
    )
    pictured(browser, request, "explorer", "README.md")
    browser.run(
        "const k = page.model.passes.findIndex((p) => p.name === 'FuseTIR');"
        "page.theme('dark'); page.set({tab: 'memory', line: 0, code: ''}); page.compareAt(k)"
    )
    pictured(browser, request, "explorer-dark", "docs/explore.md")


@pytest.mark.slow
@pytest.mark.no_roundtrip
def test_pictures_of_a_real_model(shown, request):
    browser = shown("centerface", "#view=overview")
    browser.resize(1280, 800)
    browser.run("page.theme('light')")
    pictured(browser, request, "explorer-centerface", "docs/explore.md")
    browser.resize(400, 800)
    browser.run("page.theme('dark'); page.set({view: 'asm'})")
    browser.click(f"#asm-{browser.run(FUSED)}")
    browser.run("page.panes.asm.box.scrollLeft = 0")
    pictured(browser, request, "explorer-phone", "docs/explore.md")


@pytest.mark.slow
@pytest.mark.no_roundtrip
def test_picture_of_a_pair(browser, two, request):
    browser.resize(1280, 800)
    browser.open(f"file://{two}")
    browser.run("page.theme('light'); page.toRow(page.first()); scrollTo(0, 0)")
    pictured(browser, request, "explorer-pair", "docs/explore.md")


def pictured(browser, request, name, document):
    file = PICTURES / f"{name}.png"
    time.sleep(0.3)  # colours change in steps
    if request.config.getoption("--update-golden"):
        browser.save(file)
    browser.resize()
    assert 20_000 < file.stat().st_size < 300_000
    assert f"pictures/{name}.png" in (ROOT / document).read_text(encoding="utf-8")


def _pass(browser, name):
    return browser.run(
        "return [...document.querySelectorAll('#passes li')]"
        ".find((e) => e.firstChild.textContent === arguments[0]).dataset.pass",
        name,
    )


def _node(browser, name):
    """Click the box of a node, scrolled to."""
    of = (
        "const k = page.model.byName.get(arguments[0]);"
        "page.graph.centre([k]); return page.graph.at.get(k).id"
    )
    browser.click("#" + browser.run(of, name))


@pytest.mark.no_roundtrip
def test_the_ten_questions_by_clicks(shown):
    """Those of docs/seeing.md that the page answers, each with at most two clicks."""
    browser = shown("digits")
    text = "return page.panes[arguments[0]].rows.map((row) => row.t).join('\\n')"
    # 1. Loops of the whole model.
    browser.click(f"li[data-pass='{_pass(browser, 'LegalizeOps')}']")
    browser.click("#kernel option[value='softmax']")
    assert "def softmax(" in browser.run(text, "tir") and "T.block(" in browser.run(text, "tir")
    # 3. The steps and their times.
    times = browser.run(
        "return [...document.querySelectorAll('#passes .ms')].map((e) => e.innerText)"
    )
    assert len(times) > 10 and any(float(ms) > 0 for ms in times)
    # 4. The rule that made loops of an operator.
    _node(browser, "/fc/MatMul")
    decisions = browser.run("return document.getElementById('decisions').innerText")
    assert "legalize relax.matmul" in decisions and "winner: " in decisions
    # 5. What a pass changed.
    browser.click(f"li[data-pass='{_pass(browser, 'FuseTIR')}']")
    browser.press("d")
    assert "add" in browser.run("return page.panes.relax.rows.map((row) => row.change)")
    browser.press("d")
    # 7. What became of a layer.
    _node(browser, "/relu2")
    assert all(browser.run(HITS, pane) for pane in ("relax", "tir", "llvm", "asm"))
    assert browser.run("return page.state.kernel") == "fused_conv2d1_relu1"
    # 8. Whose a loop is.
    browser.run("page.toPass(page.model.passes.length - 1)")
    browser.click("#clear")
    row = browser.run(
        "const {rows, box} = page.panes.tir;"
        "const k = rows.findIndex((r) => !r.weak && page.model.members[r.set].size === 1);"
        "box.scrollTop = k * 18 - 60; page.panes.tir.draw(); return k"
    )
    browser.click(f"#tir-{row}")
    assert browser.run("return document.querySelectorAll('#selection .chip').length") >= 1
    # 9. The code that runs.
    browser.click("#kernel option[value='softmax']")
    assert "lw.softmax" in browser.run(text, "asm")
    # 10. Where the time goes.
    browser.click("[data-tab='nodes']")
    spent = browser.run("return document.getElementById('nodes').innerText")
    assert "µs" in spent and "/conv2" in spent
    assert browser.errors() == []


# ---------------------------------------------------------------- without a browser


@pytest.mark.no_roundtrip
def test_a_trace_and_an_executable_have_pages(tmp_path):
    text = lw.lower(DIGITS).html(tmp_path / "trace.html", title="a <b> & c")
    assert (tmp_path / "trace.html").read_text(encoding="utf-8") == text
    assert "<title>a &lt;b&gt; &amp; c" in text and "http://" not in text.split("<script")[
        0
    ].replace("http://www.w3", "")
    assert "Copyright (c) 2012-2014 Chris Pettitt" in text and "BSD 3-Clause License" in text
    exe = lw.compile(DIGITS)
    image = np.zeros((2, 1, 16, 16), "float32")
    assert len(exe.html(inputs={"image": image}, number=1)) > len(text)


def test_it_is_served_to_this_machine_only():
    import http.client

    with server("<p>page") as serving:
        host, port = serving.server_address[:2]
        assert host == "127.0.0.1"
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        answers = {}
        for path, name in (
            ("/", f"127.0.0.1:{port}"),
            ("/x", f"127.0.0.1:{port}"),
            ("/", "evil.example"),
        ):
            connection = http.client.HTTPConnection(host, port, timeout=10)
            connection.request("GET", path, headers={"Host": name})
            answer = connection.getresponse()
            answers[path, name.split(":")[0]] = (answer.status, answer.read())
        serving.shutdown()
    assert answers["/", "127.0.0.1"] == (200, b"<p>page")
    assert answers["/x", "127.0.0.1"][0] == answers["/", "evil.example"][0] == 404


@pytest.mark.no_roundtrip
def test_the_command_writes_a_file(tmp_path):
    from typer.testing import CliRunner

    assert isinstance(app, typer.Typer)
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["explore", DIGITS, "-o", str(out), "--number", "1"])
    assert done.exit_code == 0, done.output
    assert f"{out}: {out.stat().st_size} bytes" in done.output
    assert "DecompressionStream" in out.read_text(encoding="utf-8")
