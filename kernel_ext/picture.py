"""A graph as SVG, without the `dot` program: boxes at positions computed here, one tint a kernel."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from kernel_ext import html
from kernel_ext.collapse import Group
from kernel_ext.html import esc
from kernel_ext.layout import Box, Layout, place

CHAR, SMALL, PAD = 6.7, 5.5, 12
_STYLE = (
    "svg.dj-svg text{font:11px monospace;fill:#1f2328;text-anchor:middle}svg.dj-svg .s{font-size:9px;fill:#57606a}"
    "svg.dj-svg .e{fill:none;stroke:#8b949e;stroke-width:1.1}svg.dj-svg .b{stroke:#8b949e;stroke-width:1}"
    "svg.dj-svg .p{fill:#fff}svg.dj-svg .h{fill:#8b949e}"
)


def draw(groups: Sequence[Group], label: str) -> str:
    """The text of an SVG file."""
    boxes = [_box(group, {g.key for g in groups}) for group in groups]
    layout = place(boxes)
    sizes = {box.key: box for box in boxes}
    edges = "".join(
        _edge(sizes[key], sizes[group.key], layout) for group in groups for key in group.inputs if key in sizes
    )
    drawn = "".join(_draw_box(group, sizes[group.key], layout) for group in groups)
    margin = _margin(groups, sizes, layout)
    width, height = layout.width + 2 * PAD + margin, layout.height + 2 * PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dj-svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}</style><title>{esc(label)}</title>'
        f'<rect class="p" width="100%" height="100%" rx="6"/>'
        f'<g transform="translate({PAD} {PAD})">{edges}{drawn}</g></svg>'
    )


def data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _box(group: Group, known: set[str]) -> Box:
    wide = max(CHAR * len(_cut(group.title, 34)), SMALL * len(_cut(_below(group), 44))) + 16
    height = 20.0 if group.is_input or not _below(group) else 32.0
    return Box(group.key, max(34.0, wide), height, tuple(key for key in group.inputs if key in known))


def _below(group: Group) -> str:
    facts = [group.subtitle, f"line {group.line}" if group.line is not None else "", group.kernel]
    return " · ".join(fact for fact in facts if fact)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _draw_box(group: Group, box: Box, layout: Layout) -> str:
    at = layout.at[group.key]
    fill = _on_white(html.KERNEL_TINTS[int(group.kernel.split()[0][1:]) % 8]) if group.kernel else "#f6f8fa"
    middle = at.x + box.width / 2
    radius = 10 if group.is_input else 4
    first = f'<text x="{middle:.0f}" y="{at.y + 14:.0f}">{esc(_cut(group.title, 34))}</text>'
    below = _cut(_below(group), 44)
    second = f'<text class="s" x="{middle:.0f}" y="{at.y + 26:.0f}">{esc(below)}</text>' if below else ""
    spot = f'x="{at.x:.0f}" y="{at.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="{radius}"'
    return f'<g><rect class="b" {spot} fill="{fill}"/>{first}{"" if group.is_input else second}</g>'


def _on_white(rgb: str) -> str:
    """A tint of 22 % over the white of the picture."""
    return "#" + "".join(f"{round(255 - 0.22 * (255 - int(part))):02x}" for part in rgb.split(","))


def _edge(source: Box, target: Box, layout: Layout) -> str:
    a, b = layout.at[source.key], layout.at[target.key]
    if a.column != b.column:
        x1, y1, x2, y2 = a.x + source.width, a.y + source.height / 2, b.x, b.y + target.height / 2
        path = f"M{x1:.0f} {y1:.0f}C{x1 + 24:.0f} {y1:.0f} {x2 - 24:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
        head = f"M{x2:.0f} {y2:.0f}l-6 -3v6z"
    elif b.layer - a.layer == 1:
        x1, y1, x2, y2 = a.x + source.width / 2, a.y + source.height, b.x + target.width / 2, b.y
        path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + 11:.0f} {x2:.0f} {y2 - 11:.0f} {x2:.0f} {y2:.0f}"
        head = f"M{x2:.0f} {y2:.0f}l-3 -6h6z"
    else:  # around the boxes between
        x1, y1, x2, y2 = a.x + source.width, a.y + source.height / 2, b.x + target.width, b.y + target.height / 2
        far = max(x1, x2) + 14 + min(26, 3 * (b.layer - a.layer))
        path = f"M{x1:.0f} {y1:.0f}C{far:.0f} {y1:.0f} {far:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
        head = f"M{x2:.0f} {y2:.0f}l6 -3v6z"
    return f'<path class="e" d="{path}"/><path class="h" d="{head}"/>'


def _margin(groups: Sequence[Group], sizes: dict[str, Box], layout: Layout) -> float:
    """Room at the right for the lines that go around boxes."""
    around = [
        layout.at[g.key].layer - layout.at[key].layer
        for g in groups
        for key in g.inputs
        if key in sizes and layout.at[g.key].column == layout.at[key].column
    ]
    return 44.0 if any(distance > 1 for distance in around) else 0.0
