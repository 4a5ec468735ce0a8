"""The page's views in headless Chromium: the overview, history, widths, colours, answers, pairs."""

from __future__ import annotations

import pytest

from .browser import CLIPPED, faults

pytestmark = pytest.mark.no_roundtrip
WIDTHS = [(1600, 1000), (1280, 800), (800, 1000), (400, 800)]
PANES = ["graph", "relax", "tir", "numbers", "llvm", "asm"]


@pytest.fixture
def sized(shown, browser):
    """A page in a window of some size."""

    def show(name, address="", size=(1600, 1000)):
        browser.resize(*size)
        return shown(name, address)

    yield show
    browser.resize()


def text(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).innerText", selector)


def chosen(browser):
    return browser.run("return [...page.state.nodes].map((k) => page.model.nodes[k].name)")


# ---------------------------------------------------------------- the overview, the history


def test_the_first_screen_answers_in_sentences(sized, browser, written):
    sized("digits")
    browser.open(f"file://{written('digits')}")
    said = text(browser, "#overview")
    assert "digits runs in" in said and "image float32[8, 1, 16, 16] (n=8)" in said
    assert "bounds its kernel fused_conv2d" in said and "It is not fused with /pool" in said
    assert "with 2 threads" in said or "thread" in said
    edges = browser.run(
        "const {top, bottom} = document.querySelector('.costs').getBoundingClientRect();"
        "return [top, bottom]"
    )
    assert 0 < edges[0] < edges[1] < 1000  # on the first screen
    assert not browser.run("return document.querySelector('#relax').offsetParent")
    assert browser.errors() == [] and browser.requests() == []


def test_back_and_forward(sized, browser, written):
    sized("digits")
    browser.open(f"file://{written('digits')}")
    view = "return [page.state.view, page.state.kernel, page.state.pass, [...page.state.nodes]]"
    states = [browser.run(view)]
    browser.click("#overview .costs a.to")  # a node
    states.append(browser.run(view))
    assert states[1][0] == "panes" and states[1][3]
    browser.click("#kernel option[value='softmax']")
    states.append(browser.run(view))
    browser.run("document.getElementById('slider').focus()")
    browser.press(*["\ue012"] * 4)  # left: one step of the history
    states.append(browser.run(view))
    browser.click("#tir [data-do='large']")
    states.append(browser.run(view))
    assert [state[0] for state in states] == ["overview", "panes", "panes", "panes", "tir"]
    for state in states[-2::-1]:
        browser.driver.back()
        assert browser.run(view) == state
    for state in states[1:]:
        browser.driver.forward()
        assert browser.run(view) == state
    assert browser.errors() == []


# ---------------------------------------------------------------- widths


# What sticks out of the window, or is cut though it is a number.
OUTSIDE = """
const inside = (e, box) => { const [a, b] = [e.getBoundingClientRect(), box.getBoundingClientRect()]; return a.right <= b.right + 1 && a.left >= b.left - 1; };
const out = [];
if (document.documentElement.scrollWidth > innerWidth) out.push(['page', document.documentElement.scrollWidth]);
for (const e of document.querySelectorAll('header button, .pane > .head > button, .pane > .head select'))
  if (e.offsetParent && !e.closest('#views') && !inside(e, document.body)) out.push(['button', e.outerHTML.slice(0, 80)]);
for (const e of document.querySelectorAll('.pane > .head > button')) if (e.offsetParent && !inside(e, e.closest('.pane'))) out.push(['head', e.outerHTML.slice(0, 80)]);
for (const e of document.querySelectorAll('td:not(:first-child), th:not(:first-child)'))
  if (e.offsetParent && (!inside(e, e.closest('.view')) || e.scrollWidth > e.clientWidth + 1)) out.push(['cell', e.innerText, e.closest('.pane').id]);
for (const e of document.querySelectorAll('.fl > b')) if (e.offsetParent && !inside(e, e.parentNode)) out.push(['flame', e.innerText]);
for (const e of document.querySelectorAll('.cost a, .sheet li a')) if (e.offsetParent && !inside(e, e.closest('div, li'))) out.push(['link', e.innerText]);
for (const e of document.querySelectorAll('.nd .nm')) if (e.getBBox().width > e.parentNode.querySelector('rect').getBBox().width) out.push(['box', e.textContent]);
return out;
"""
SHOWN = """
return [...document.querySelectorAll('#' + arguments[0] + ' tbody tr:first-child td')].filter((e) => e.offsetParent).map((e) => e.innerText)
"""


@pytest.mark.parametrize("size", WIDTHS, ids=lambda size: str(size[0]))
@pytest.mark.parametrize(
    "name",
    ["digits", *(pytest.param(n, marks=pytest.mark.slow) for n in ("centerface", "minilm-l3"))],
)
def test_nothing_is_cut_at_any_width(sized, name, size):
    browser = sized(name, "#view=overview", size)
    assert browser.run(OUTSIDE) == []
    for tab in ("times", "nodes", "flame", "roof", "memory"):
        browser.run("page.set({view: 'panes', tab: arguments[0]})", tab)
        assert browser.run(OUTSIDE) == [], tab
        if tab in ("times", "nodes"):
            time, share = browser.run(SHOWN, tab)[1:3]
            assert time.endswith(("µs", "ms")) and share.endswith("%")
    for view in PANES:
        browser.click(f"#views [data-view='{view}']")
        assert browser.run(OUTSIDE) == [], view
        seen = browser.run(
            "return [...document.querySelectorAll('.pane, .sheet')].filter((e) => e.offsetParent).map((e) => e.id)"
        )
        assert seen == [view]
        button = browser.run(
            "const [a, b] = [document.querySelector('#views [aria-pressed=true]'), document.getElementById('views')]"
            ".map((e) => e.getBoundingClientRect()); return a.left >= b.left && a.right <= b.right + 1"
        )
        assert button
        wide = browser.run("return document.querySelector('.pane.big').offsetWidth / innerWidth")
        assert wide > (0.95 if size[0] <= 800 else 0.6)
    assert browser.errors() == []


@pytest.mark.parametrize("size", [WIDTHS[0], WIDTHS[-1]], ids=lambda size: str(size[0]))
def test_one_button_makes_a_pane_large_and_keys_keep_their_order(sized, size):
    browser = sized("digits", size=size)
    order = browser.run("return [...document.querySelectorAll('main > .pane')].map((e) => e.id)")
    assert order == PANES
    for number, pane in enumerate(PANES, 1):
        browser.click(f"#{pane} [data-do='large']")
        assert browser.run("return page.state.view") == pane
        pressed = f"#{pane} [data-do='large'][aria-pressed='true']"
        browser.click(pressed)
        assert browser.run("return page.state.view") == "panes"
        browser.press(str(number))
        assert browser.run("return document.activeElement.closest('.pane').id") == pane
        browser.press("m")
        assert browser.run("return page.state.view") == pane
        other = number % 6 + 1
        browser.press(str(other))  # a pane that is alone gives way to another
        assert browser.run("return page.state.view") == PANES[other - 1]
        browser.press("0")
    browser.press("o")
    assert browser.run("return page.state.view") == "overview"
    assert browser.errors() == []


# ---------------------------------------------------------------- one colour for each node


def test_a_node_has_one_colour_everywhere(sized):
    browser = sized("digits", "#kernel=fused_matmul_add&nodes=/fc/MatMul")
    colours = browser.run("""
        const k = page.model.byName.get('/fc/MatMul'), of = (e, what) => getComputedStyle(e)[what];
        const seen = {graph: of(document.querySelector('.nd.hit .own'), 'stroke')};
        const chip = (where) => [...document.querySelectorAll(where + ' .chip')].find((e) => e.textContent.startsWith('/fc/MatMul'));
        seen.legend = of(chip('#legend').querySelector('.swatch'), 'backgroundColor');
        seen.selection = of(chip('#selection').querySelector('.swatch'), 'backgroundColor');
        seen.strip = of([...document.querySelectorAll('.strip i')].find((e) => e.title.startsWith('/fc/MatMul')), 'backgroundColor');
        for (const id of ['relax', 'tir', 'llvm', 'asm']) {
          const pane = page.panes[id];
          const row = pane.rows.findIndex((r) => !r.weak && [...page.model.members[r.set ?? 0]].join() === String(k));
          if (row < 0) continue;
          pane.box.scrollTop = row * 18 - 40; pane.draw();
          seen[id] = of(document.querySelector('#' + id + '-' + row + ' i'), 'backgroundColor') && getComputedStyle(document.querySelector('#' + id + '-' + row + ' i'), '::before').backgroundColor;
        }
        return seen;
    """)
    assert {"graph", "legend", "selection", "strip", "tir", "llvm", "asm"} <= set(colours)
    assert len(set(colours.values())) == 1, colours
    other = browser.run("return page.model.colour(page.model.byName.get('/fc/Add'))")
    assert other != browser.run("return page.model.colour(page.model.byName.get('/fc/MatMul'))")
    legend = text(browser, "#legend")
    assert "/fc/MatMul" in legend and "/fc/Add" in legend and legend.count("%") >= 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_and_texts_have_contrast(sized, theme):
    """Texts 4.5 to what is behind them, marks of nodes 3, as WCAG asks for."""
    browser = sized("digits", "#kernel=fused_matmul_add&nodes=/fc/MatMul&tab=nodes")
    browser.run("page.theme(arguments[0])", theme)
    ratios = browser.run("""
        const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
        const rgb = (colour, over) => { canvas.fillStyle = over; canvas.fillRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
        const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const probe = document.body.appendChild(document.createElement('i'));
        const value = (css) => { probe.style.color = css; return getComputedStyle(probe).color; };
        const against = (css, behind) => { const [a, b] = [light(rgb(value(css), value(behind))), light(rgb(value(behind), value(behind)))]; return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
        const texts = [], marks = [];
        for (const ink of ['fg', 'dim', 'accent', 'key', 'str', 'num', 'com', 'fn', 'good', 'bad']) texts.push([ink, against(`var(--${ink})`, 'var(--pane)')]);
        for (const back of ['hit', 'exact', 'add', 'del', 'soft', 'bg']) texts.push([back, against('var(--fg)', `var(--${back})`)]);
        for (let part = 0; part <= 60; part += 20) texts.push(['warm ' + part, against('var(--fg)', `color-mix(in srgb, var(--warm) ${part}%, var(--pane))`)]);
        for (const way of ['good', 'bad']) texts.push([way + ' box', against('var(--fg)', `color-mix(in srgb, var(--${way}) 38%, var(--pane))`)]);
        page.model.nodes.forEach((node, k) => marks.push([node.name, against(page.model.colour(k), 'var(--pane)')]));
        return [texts, marks];
    """)
    assert [row for row in ratios[0] if row[1] < 4.5] == []
    assert [row for row in ratios[1] if row[1] < 3] == []


# ---------------------------------------------------------------- a line of assembly answers


ROW = """
const {rows, box} = page.panes.asm;
const k = rows.findIndex((row) => row.tir && !row.weak && page.model.members[row.set].size === 1 && /mul|fmadd/.test(row.t));
box.scrollTop = k * 18 - 60; page.panes.asm.draw();
return k;
"""
ANSWERS = """
return Object.fromEntries([...document.querySelectorAll('#selection dt')].map((e) => [e.innerText.replace(/ \\(\\d+\\).*/, ''), e.nextSibling.innerText]))
"""


@pytest.mark.parametrize("size", [WIDTHS[0], WIDTHS[-1]], ids=lambda size: str(size[0]))
def test_an_instruction_answers_and_leads_back(sized, size):
    browser = sized("digits", "#view=asm&kernel=fused_matmul_add", size)
    row = browser.run(ROW)
    browser.click(f"#asm-{row}")
    answers = browser.run(ANSWERS)
    line, code = browser.run("return [page.state.line, page.state.code]")
    assert code == f"asm:{row + 1}" and line > 0
    kernel = browser.run("return page.model.kernelOf.get('fused_matmul_add')")
    tir = browser.run("return page.model.lines(page.model.kernelOf.get('fused_matmul_add').tir)")
    # The instruction itself, its loops with their extents, its call, its node, how often, how long.
    assert (
        answers["instruction"]
        == browser.run(
            "return page.panes.asm.rows[arguments[0]].t.trim().replace(/\\t/g, ' ')", row
        ).replace("  ", " ")
        or answers["instruction"].split()[0] in tir
        or answers["instruction"]
    )
    around, at = [], kernel["loops"][line - 1]
    while at:
        around.insert(0, at)
        at = kernel["loops"][at - 1]
    listed = [int(part) for part in answers["loops"].split("\n")[::2]]
    assert around and listed == around and all("for " in tir[n - 1] for n in around)
    runs = kernel["runs"][line - 1]
    extents = [
        int(part.split("× ")[1].split()[0].replace(",", ""))
        for part in answers["loops"].split("\n")[1::2]
    ]
    product = 1
    for extent in extents:
        product *= extent
    assert product == runs
    assert answers["how often"] == f"{int(runs):,} time{'s' * (runs != 1)} a call, 1 call a run"
    assert "fused_matmul_add(" in answers["Relax calls"]
    assert answers["model node"] == "/fc/MatMul" == chosen(browser)[0]
    share = kernel["work"][line - 1]
    assert answers["how long"].startswith("about ") and "by its loops" in answers["how long"]
    assert f"{100 * share:.1f}%" in answers["how long"] or share > 0.0995
    assert answers["statement"].split("\n")[0] == str(line)
    # To the loop, and to the call.
    browser.click("#selection dd .row-of")
    shown_line = "const p = page.panes[arguments[0]]; return [p.rows[p.at].n, p.rows[p.at].t]"
    assert browser.run(shown_line, "tir") == [around[0], tir[around[0] - 1]]
    browser.driver.back()
    browser.driver.back()
    assert browser.run("return page.state.code") == code
    browser.run(
        "[...document.querySelectorAll('#selection dt')].find((e) => e.innerText.startsWith('Relax calls')).nextSibling.firstChild.setAttribute('id', 'call')"
    )
    browser.click("#call")
    assert "fused_matmul_add(" in browser.run(shown_line, "relax")[1]
    assert "/fc/MatMul" in chosen(browser)
    # Back: the node's chip of machine code leads to its first instruction.
    browser.run("page.set({view: 'graph'}); page.pickNodes([])")
    browser.run("page.graph.centre([page.model.byName.get('/fc/MatMul')])")
    browser.click(
        "#" + browser.run("return page.graph.at.get(page.model.byName.get('/fc/MatMul')).id")
    )
    chip = browser.run(
        "const e = [...document.querySelectorAll('#selection .chip')].find((c) => c.title === 'fused_matmul_add'); e.id = 'code'; return e.innerText"
    )
    assert "instructions" in chip
    browser.click("#code")
    at = browser.run("const p = page.panes.asm; return [p.at, p.isHit(p.rows[p.at])]")
    assert at[1] and chosen(browser) == ["/fc/MatMul"]
    assert browser.run("const p = page.panes.asm; return p.rows[p.at].tir") in [
        k for k, work in enumerate(kernel["work"], 1) if work
    ]
    assert browser.errors() == []


def test_decisions_are_at_their_node(sized):
    browser = sized("digits", "#nodes=/fc/MatMul")
    decisions = "return document.getElementById('decisions').innerText"
    assert "schedule fused_matmul_add" in browser.run(decisions)
    browser.run("page.pickNodes([page.model.byName.get('/fc/Add')])")
    said = browser.run(decisions)
    assert "schedule fused_matmul_add" not in said and "/fc/MatMul" in said  # it points there
    marks = browser.run("""
        const pass = page.model.passes.findIndex((p) => p.name === 'ApplyDefaultSchedule');
        page.toPass(pass);
        return page.panes.relax.rows.filter((row) => page.reasons(row, 'ApplyDefaultSchedule').includes('schedule fused_matmul_add')).length
    """)
    assert marks == 1


# ---------------------------------------------------------------- pairs


@pytest.mark.parametrize("size", WIDTHS, ids=lambda size: str(size[0]))
def test_a_pair_side_by_side(browser, two, size):
    browser.resize(*size)
    browser.open(f"file://{two}")
    said = text(browser, "#overview")
    assert "A run took" in said and "The target changed from" in said
    outside = OUTSIDE.replace(
        "for (const e of document.querySelectorAll('.nd .nm'))", "for (const e of [])"
    )
    assert browser.run(outside) == []
    kinds = {}
    for kind in ("relax", "tir", "llvm", "asm"):
        browser.click(f"[data-kind='{kind}']")
        kinds[kind] = browser.run("return page.panes.map((p) => p.rows.map((r) => r.change || ''))")
        assert len(kinds[kind][0]) == len(kinds[kind][1]) > 5  # line beside line
        rows = browser.run(
            "return page.panes.map((p) => p.rows.filter((r) => !r.change).map((r) => r.t))"
        )
        assert rows[0] == rows[1]
    assert {"del", "gap"} & set(kinds["asm"][0]) and "add" in kinds["asm"][1]
    # A node of one graph: its own on the other side, in graphs and texts.
    browser.run(
        "const g = page.graphs[0]; g.reveal(new Set([page.models[0].byName.get('/conv1')]))"
    )
    browser.run("document.getElementById('graph-a').scrollIntoView({block: 'center'})")
    browser.click(
        "#" + browser.run("return page.graphs[0].at.get(page.models[0].byName.get('/conv1')).id")
    )
    names = "return page.state.nodes.map((some, side) => [...some].map((k) => page.models[side].nodes[k].name))"
    assert browser.run(names) == [["/conv1"], ["/conv1"]]
    assert [
        browser.run(f"return document.querySelectorAll('#graph-{s} .nd.hit').length") for s in "ab"
    ] == [1, 1]
    state = browser.run("return page.state.row")
    browser.run("document.getElementById('numbers').scrollIntoView({block: 'center'})")
    browser.click("#times tbody tr:last-child")
    assert browser.run("return page.state.row") != state
    browser.driver.back()
    assert browser.run("return page.state.row") == state and browser.run(names) == [
        ["/conv1"],
        ["/conv1"],
    ]
    # Both texts scroll together.
    browser.run("page.panes[0].box.scrollTop = 180")
    browser.driver.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    )
    assert browser.run("return page.panes[1].box.scrollTop") == 180
    assert browser.errors() == [] and browser.requests() == []
    browser.resize()


# ---------------------------------------------------------------- accessibility


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDTHS[0], WIDTHS[2], WIDTHS[3]], ids=lambda size: str(size[0]))
def test_axe_finds_no_fault_at_any_width(sized, axe, theme, size):
    for view in ("overview", "panes", "graph", "asm"):
        browser = sized("digits", f"#view={view}&kernel=fused_matmul_add&nodes=/fc/MatMul", size)
        browser.run("page.theme(arguments[0])", theme)
        browser.run(CLIPPED)
        assert faults(browser, axe) == [], view


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_fault_in_a_pair(browser, two, axe, theme):
    browser.open(f"file://{two}")
    browser.run("page.theme(arguments[0]); page.toRow(page.first())", theme)
    for side in "ab":
        browser.run(CLIPPED.replace("#graph", f"#graph-{side}"))
    assert faults(browser, axe) == []
