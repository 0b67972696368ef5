"""The card in a real JupyterLab: tabs, links, keyboard, both themes, saved and opened again, trusted and not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import PATIENCE, ROOT, Lab, Tab, chromium

CELLS = [
    "%load_ext kernel_ext\nimport torch",
    "%%compile\n"
    "def norm(h, w):\n"
    "    mean = h.mean(-1, keepdim=True)\n"
    "    return (h - mean) * w\n"
    "\n"
    "def block(x, w, b):\n"
    "    h = x @ w + b\n"
    "    h = 0.5 * h * (1 + torch.erf(h * 0.7071))\n"
    "    m = norm(h, b)\n"
    "    if m.max() > 100:\n"
    "        print('large')\n"
    "    return (h - m).softmax(-1)\n",
    "w, b = torch.randn(16, 16), torch.randn(16)\nfor n in (8, 9):\n    block(torch.randn(n, 16), w, b)\n",
]
TABS = ("Source", "Graph", "Guards", "Kernels", "Timeline")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if chromium() is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    from lab import ARGUMENTS

    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), headless=True, args=ARGUMENTS.split())
        yield made
        made.close()


def test_card_in_jupyterlab(browser: Any, tmp_path: Path) -> None:
    with Lab(tmp_path).running() as lab:
        saved = lab.write("block.ipynb", CELLS)
        tab = Tab(browser, lab)
        try:
            live(tab)
            lab.end_sessions()
            tab.close()
            tab = Tab(browser, lab)
            opened_again(tab)
            tab.close()
            saved.write_text(saved.read_text().replace("mean = h.mean", "mean = h . mean"))
            tab = Tab(browser, lab)
            untrusted(tab)
            lab.end_sessions()
            tab.close()
            lab.write("widget.ipynb", [*CELLS, "from kernel_ext import widget\ncard = widget(block)\ncard"])
            tab = Tab(browser, lab)
            as_widget(tab)
        except BaseException:
            keep = ROOT / "tests" / "notebook" / "artefacts"
            keep.mkdir(exist_ok=True)
            tab.page.screenshot(path=keep / "failure.png")
            raise
        finally:
            tab.close()


def healthy(tab: Tab) -> None:
    assert tab.foreign == []
    assert tab.faults == []


def live(tab: Tab) -> None:
    page = tab.page
    tab.open("block.ipynb")
    tab.command("application:toggle-left-area")
    tab.command("notebook:run-all-cells")
    page.wait_for_selector(".dj-tabs", timeout=PATIENCE)
    card = page.locator(".dj-report:has(.dj-tabs)").first
    assert "block" in card.inner_text()

    # tabs
    assert [name.split(" ")[0] for name in card.get_by_role("tab").all_inner_texts()] == list(TABS)
    for name in TABS:
        card.get_by_role("tab", name=name).click()
        assert card.locator(".dj-panel:visible").count() == 1
    card.get_by_role("tab", name="Timeline").press("ArrowLeft")
    assert card.get_by_role("tab", name="Kernels").get_attribute("aria-selected") == "true"

    # a line, its nodes and its kernel; a node and its line
    card.get_by_role("tab", name="Source").click()
    line = card.locator(".dj-item[data-verdict]", has_text="torch.erf")
    number = line.get_attribute("data-l")
    line.click()
    lit = {el.get_attribute("data-l") for el in card.locator(".dj-node.dj-lit").all()}
    assert lit == {number}
    assert card.locator(".dj-code .dj-lit").count() > 0
    line.press("Escape")
    card.get_by_role("tab", name="Graph").click()
    card.locator(".dj-node", has_text="erf").first.click()
    assert card.locator(".dj-item[data-verdict].dj-lit").get_attribute("data-l") == number
    page.keyboard.press("Escape")

    # by keyboard alone, without waking the notebook's own commands
    card.get_by_role("tab", name="Source").click()
    card.locator(".dj-item[data-verdict]").first.focus()
    cells = page.locator(".jp-Cell").count()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert card.locator(".dj-item[aria-selected=true]").count() == 1
    page.keyboard.press("b")
    assert page.locator(".jp-Cell").count() == cells
    page.keyboard.press("Escape")

    # both themes
    colours = {}
    for theme in ("Light", "Dark"):
        tab.command("apputils:change-theme", f"{{theme: 'JupyterLab {theme}'}}")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
        page.wait_for_timeout(300)
        verdicts = {
            name: page.evaluate(
                "el => getComputedStyle(el).backgroundColor",
                card.locator(f"[data-verdict={name}]").first.element_handle(),
            )
            for name in ("captured", "inlined", "break", "eager")
        }
        assert len(set(verdicts.values())) == 4
        colours[theme] = page.evaluate("el => getComputedStyle(el).color", card.element_handle())
        for name in TABS:
            card.get_by_role("tab", name=name).click()
            assert accessible(page) == []
        picture(card, theme)
    assert colours["Light"] != colours["Dark"]
    tab.command("docmanager:save")
    healthy(tab)


def accessible(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    rules = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
    found = axe.run(page, context=".dj-report", options=rules).response["violations"]
    return [
        f"{row['id']}: {node['html'][:200]} {node['failureSummary'][:300]}" for row in found for node in row["nodes"]
    ]


def picture(card: Any, theme: str) -> None:
    """For the front page: DYNAJIT_PICTURES names a folder."""
    folder = os.environ.get("DYNAJIT_PICTURES")
    if folder:
        for name in TABS:
            card.get_by_role("tab", name=name).click()
            card.page.wait_for_timeout(200)
            card.screenshot(path=Path(folder) / f"card-{name.lower()}-{theme.lower()}.png")


def opened_again(tab: Tab) -> None:
    tab.open("block.ipynb", with_kernel=False)
    card = tab.page.locator(".dj-report:has(.dj-tabs)").first
    card.wait_for(timeout=PATIENCE)
    card.get_by_role("tab", name="Graph").click()
    assert card.locator(".dj-node:visible").count() > 5
    assert "model not found" not in tab.page.inner_text(".jp-Notebook")
    healthy(tab)


def untrusted(tab: Tab) -> None:
    page = tab.page
    tab.open("block.ipynb", with_kernel=False)
    page.wait_for_selector(".jp-OutputArea-output details", timeout=PATIENCE)
    assert page.locator(".dj-tabs").count() == 0
    output = page.locator(".jp-OutputArea-output", has=page.locator("details")).first
    assert "graph break" in output.inner_text()
    tinted = output.get_by_text("torch.erf").first.locator("xpath=../..")
    assert page.evaluate("el => getComputedStyle(el).backgroundColor", tinted.element_handle()).startswith("rgba(46")
    output.locator(".dj-tab > summary", has_text="Graph").click()
    shown = output.locator("img").first
    assert page.evaluate("el => el.complete && el.naturalWidth > 50", shown.element_handle())
    assert tab.foreign == []


def as_widget(tab: Tab) -> None:
    page = tab.page
    tab.open("widget.ipynb")
    tab.command("notebook:run-all-cells")
    card = page.locator(".dj-report:has(.dj-tabs)").nth(1)
    card.wait_for(timeout=PATIENCE)
    assert "In[2]:6" in card.inner_text()
    card.get_by_role("tab", name="Graph").click()
    card.locator(".dj-node", has_text="erf").first.click()
    card.get_by_role("tab", name="Source").click()
    assert card.locator(".dj-item[data-verdict].dj-lit").count() == 1
    page.wait_for_timeout(500)
    tab.command("notebook:insert-cell-below")
    page.keyboard.press("Enter")
    page.keyboard.insert_text("print(card.tab, card.selected_line, card.selected_node)")
    tab.command("notebook:run-cell")
    page.wait_for_function("document.body.innerText.includes('source 8 erf')", timeout=30_000)
    healthy(tab)
