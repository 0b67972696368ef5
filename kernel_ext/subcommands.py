"""The words after `%compile`, with what each does."""

from __future__ import annotations

SUBCOMMANDS = {
    "show": "show f          the report of f, here",
    "why": "why f           why f was compiled again, broke or runs eagerly, and what to do about it",
    "explain": "explain f(x)    call f once under a compiler of its own, and show what is captured",
    "guards": "guards f        what must hold for the compiled code to be used",
    "kernels": "kernels f       the text of the generated kernels",
    "graph": "graph f         the captured graphs as Python text",
    "dot": "dot f [file]    the first graph in DOT, for Graphviz",
    "export": "export f file   the report as one HTML file",
    "reset": "reset [f]       forget what was compiled, of f or of everything",
    "off": "off             names are bound to the plain functions again; cells compile nothing",
    "on": "on              undo `off`",
}
TAKES_NAME = ("show", "why", "explain", "guards", "kernels", "graph", "dot", "export", "reset")
