"""The card as HTML and text: complete without a script, small, and without a word to the network."""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path
from typing import Any

import pytest
from reports import large, small
from sanitiser import sanitised, text_of

from kernel_ext import to_dot, to_html, widget
from kernel_ext.collapse import groups
from kernel_ext.forms import FRONT, front, packed_html, still_html
from kernel_ext.html import TINTS, WORDS
from kernel_ext.layout import Box, place
from kernel_ext.names import without_number
from kernel_ext.panels import Panel, panel, panels, table


def pictures(html: str) -> list[str]:
    return [base64.b64decode(text).decode() for text in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", html)]


def test_every_line_has_its_verdict_as_a_character_and_a_word() -> None:
    text = text_of(still_html(small()))
    for verdict in ("captured", "inlined", "break", "eager"):
        char, word = WORDS[verdict]
        assert re.search(rf"{char}\s+{word}", text)
    assert len(set(TINTS.values())) == len(TINTS)


def test_breaks_say_why_and_what_to_try() -> None:
    text = text_of(still_html(small()))
    assert "a branch on a tensor value DJ-D001" in text
    assert "try: use torch.where" in text


def test_untrusted_it_still_says_everything() -> None:
    html = sanitised(to_html(small()))
    text = text_of(html)
    for words in (
        "graph break",
        "h = x @ w",
        "k0",
        "x is a tensor",
        "failed 2 times",
        "float32[9, 16]",
        "erf(h)",
        "capture",
    ):
        assert words in text
    assert html.count("<details") >= 5
    assert "<script" not in html
    assert "var(" not in html
    assert "background:rgba(46,160,67,.16)" in html
    assert len(pictures(html)) == 2


def test_the_users_text_is_escaped() -> None:
    html = still_html(small())
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<b> &" not in html


def test_nothing_is_asked_from_a_network() -> None:
    html = to_html(small()) + "".join(pictures(to_html(small())))
    assert set(re.findall(r"https?://[^\"' <]*", html)) <= {"http://www.w3.org/2000/svg"}
    assert "import(" not in front()
    assert "fetch(" not in front()


def test_sizes() -> None:
    script = base64.b64encode(zlib.compress(front().encode(), 9))
    assert len(script) < 20_000
    assert len(to_html(small())) < 30_000
    assert len(to_html(large(300, 100))) < 120_000  # more than a function of a hundred lines has: a hundred kernels
    assert len(to_html(large(3_000, 200))) < 400_000


def test_what_is_long_is_packed_and_complete() -> None:
    report = large(300, 100)
    text, packed = packed_html(report)
    data = json.loads(zlib.decompress(base64.b64decode(packed), -15))
    gaps = re.findall(r'data-fill="(\d+)"', text)
    assert [int(gap) for gap in gaps] == list(range(len(data["fill"])))
    whole = still_html(report)
    assert all(part in whole for part in data["fill"])
    assert "<!--dj" not in text + whole
    nodes = data["graphs"]["0"]["nodes"]
    assert [node[0] for node in nodes] == [f"n{i}" for i in range(300)]
    assert nodes[7][7] == [6, 2]
    assert nodes[299][5] == "k99"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("k3_add_tanh", "add_tanh"), ("backward k0_mul", "backward mul"), ("k7", ""), ("kernel", "kernel")],
)
def test_a_kernel_is_named_once(name: str, shown: str) -> None:
    assert without_number(name) == shown


def test_both_texts_of_a_kernel_stand_together() -> None:
    text = text_of(still_html(small()))
    assert text.count("k0 gelu erf → mul") == 1
    assert "Triton" in text
    assert "not run here" in text
    assert re.search(r"line 4\s+out\[i\] = 0.5f", text)
    assert re.search(r"line 4\s+tl.store", text)


@pytest.mark.parametrize(("operations", "lines", "level"), [(3, 2, "op"), (900, 20, "call"), (3_000, 50, "line")])
def test_big_graphs_collapse(operations: int, lines: int, level: str) -> None:
    report = large(operations, lines)
    found, boxes = groups(report, report.graphs[0], 150)
    assert (found, len(boxes) <= 150) == (level, True)
    assert sum(box.size for box in boxes if not box.is_input) == operations


def test_pictures_are_svg_with_words() -> None:
    first, second = (ElementTree.fromstring(picture) for picture in pictures(to_html(small())))
    said = " ".join(el.text or "" for el in first.iter())
    assert "matmul float32[8, 16] · line 3" in said
    assert "erf float32[8, 16] · line 4 · k0" in said
    assert "softmax float32[8, 16] · line 7" in " ".join(el.text or "" for el in second.iter())


def test_boxes_do_not_overlap() -> None:
    boxes = [Box(str(i), 60 + i % 7 * 20, 32, tuple(str(j) for j in {i - 1, i // 2} if 0 <= j < i)) for i in range(120)]
    layout = place(boxes)
    spots = [(at.x, at.y, box.width, box.height) for box in boxes for at in [layout.at[box.key]]]
    for i, (x, y, w, h) in enumerate(spots):
        assert 0 <= x <= layout.width - w + 1e-6
        assert 0 <= y <= layout.height - h + 1e-6
        for x2, y2, w2, h2 in spots[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_dot_text() -> None:
    text = to_dot(small())
    assert text.startswith('digraph "block graph 0"')
    assert "matmul -> erf" in text
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, check=True, capture_output=True)


def test_panels_are_in_order_and_one_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row.title for row in panels()] == ["Source", "Graph", "Guards", "Kernels", "Timeline", "Passes"]
    monkeypatch.setattr(table, "_TABLE", list(table._TABLE))
    panel("Mine", after="Guards")(lambda report: "words of mine")
    assert [row.title for row in panels()] == ["Source", "Graph", "Guards", "Mine", "Kernels", "Timeline", "Passes"]
    assert "words of mine" in still_html(small())
    assert isinstance(panels()[0], Panel)


def test_a_file_of_its_own(tmp_path: Path) -> None:
    to_html(small(), tmp_path / "block.html")
    page = (tmp_path / "block.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "✂" in page


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_widget() -> None:
    made = widget(small(), tab="graph")
    assert made.tab == "graph"
    assert (made.selected_line, made.selected_node) == (0, "")
    assert "<script" not in made.html
    assert "dj-report" in made.html
    assert "export default" in made._esm
    assert 'data-tab="graph"' in made.html


def test_the_front_end_has_no_build_step() -> None:
    assert {path.name for path in FRONT.iterdir()} == {"report.js", "report.css"}
    node = shutil.which("node")
    if node:
        done = subprocess.run([node, "--check", str(FRONT / "report.js")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


# ---- in a notebook ----


def test_the_card_of_another_cell_is_updated(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1")
    assert len(notebook.cards) == 1
    notebook.cell("y = f(torch.ones(3))")
    notebook.cell("y = f(torch.ones(4))")
    assert len(notebook.cards) == 1
    assert notebook.shell.display_pub.updates >= 1
    assert "In[2]" in text_of(notebook.card("f")["text/html"]) or "In[3]" in text_of(notebook.card("f")["text/html"])
    updates = notebook.shell.display_pub.updates
    notebook.cell("y = f(torch.ones(4))")
    assert notebook.shell.display_pub.updates == updates


def test_a_hundred_lines_take_less_than_60_kilobytes(notebook: Any) -> None:
    steps = [
        "h = h @ w + b",
        "h = h.relu()",
        "a = h * 0.5",
        "h = torch.tanh(a) + h",
        "h = h - h.mean(-1, keepdim=True)",
    ]
    lines = [f"    {step}" for i in range(14) for step in ["# the next step", *steps, ""]]
    notebook.cell("%%compile\ndef f(h, w, b):\n" + "\n".join(lines) + "\n    return h")
    notebook.cell("w, b = torch.randn(16, 16), torch.randn(16)\nfor n in (3, 4, 5): f(torch.randn(n, 16), w, b)")
    html = notebook.card("f")["text/html"]
    assert "100" in text_of(html)
    assert len(html) < 60_000


def test_source_survives_a_cleared_linecache(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return (\n        x + 1\n    )")
    notebook.cell("import linecache; linecache.clearcache(); y = f(torch.ones(3))")
    assert "x + 1" in notebook.text("f")
    assert "    )" in notebook.text("f")


def test_places_in_other_cells_are_named_by_their_number(notebook: Any) -> None:
    notebook.cell("def helper(x):\n    return x.sin() * 2")
    number = notebook.shell.execution_count - 1
    notebook.cell("%%compile\ndef f(x):\n    return helper(x) + 1\nf(torch.ones(2))")
    assert f"In[{number}]:2" in text_of(notebook.card("f")["text/html"])


def test_a_module_shows_the_forward_inside_its_decorators(notebook: Any, tmp_path: Path) -> None:
    (tmp_path / "libdeco.py").write_text(
        "import functools\n\n\ndef deco(fn):\n    @functools.wraps(fn)\n    def wrapper(*args, **kwargs):\n"
        "        return fn(*args, **kwargs)\n\n    return wrapper\n"
    )
    (tmp_path / "libmodel.py").write_text(
        "from libdeco import deco\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    @deco\n"
        "    def forward(self, x):\n        return x.sin() + 1\n"
    )
    notebook.cell(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    notebook.cell("%%compile\nfrom libmodel import Net\nnet = Net()\nnet(torch.ones(2))")
    notebook.cell("sys.path.pop(0)")
    assert "8 ●" in notebook.text("net")
    assert "return x.sin() + 1" in notebook.text("net")


def test_the_source_of_an_instance_is_that_of_its_class(notebook: Any) -> None:
    notebook.cell("class Net(nn.Module):\n    def forward(self, x):\n        return x.exp()")
    number = notebook.shell.execution_count - 1
    notebook.cell("%%compile\n# the instance\nnet = Net()")
    notebook.cell("net(torch.ones(2));")
    assert "   3 ●         return x.exp()" in notebook.text("net")
    assert f"In[{number}]:2" in text_of(notebook.card("net")["text/html"])


def test_the_page_about_reports_names_every_field() -> None:
    report = importlib.import_module("dynajit.report")
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for name, text in sections.items():
        fields = {field.name for field in dataclasses.fields(getattr(report, name))}
        rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        assert {word for row in rows for word in re.findall(r"`(\w+)`", row)} == fields, name
    kinds = {name for name, value in vars(report).items() if dataclasses.is_dataclass(value)}
    assert set(sections) == kinds


def test_widget_view(notebook: Any) -> None:
    notebook.cell("%%compile --view widget\ndef f(x):\n    return x + 1\nf(torch.ones(2))")
    assert "application/vnd.jupyter.widget-view+json" in notebook.cards[-1]
    assert notebook.cards[-1]["text/plain"].startswith("f: 1 graph")
