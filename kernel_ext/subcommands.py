"""The words after `%compile`, with what each does."""

from __future__ import annotations

SUBCOMMANDS = {
    "show": "show f          the report of f, here",
    "why": "why f           why f was compiled again, broke or runs eagerly, and what to do about it",
    "explain": "explain f(x)    call f once under a compiler of its own, and show what is captured",
    "bench": "bench f(x)      eager and compiled in turns: medians, spread [-n calls] [-r rounds] [-o NAME] [--torch]",
    "check": "check f(x)      call f by eager and compiled on copies: results, writes, printed text, random numbers",
    "guards": "guards f        what must hold for the compiled code to be used",
    "kernels": "kernels f [k0]  texts of the generated kernels [--lang c|triton] [--save DIR] [--edit] [--ahead sm_90]",
    "graph": "graph f         the captured graphs as Python text [--level L] [--pass NAME] [--save x.svg|x.dot|x.html]",
    "diff": "diff f A B      what differs between two entries (0, 1, ...) or passes (captured, lowered, ...)",
    "dot": "dot f [file]    the first graph in DOT, for Graphviz",
    "export": "export f file   the report as one HTML file",
    "cache": "cache           where kernels are kept and how much; cache ls, cache path, cache clear",
    "reset": "reset [f]       forget what was compiled, of f or of everything",
    "off": "off             names are bound to the plain functions again; cells compile nothing",
    "on": "on              undo `off`",
}
TAKES_NAME = ("show", "why", "explain", "guards", "kernels", "graph", "diff", "dot", "export", "reset")
TAKES_CALL = ("bench", "check", "explain")
WORDS = {
    "bench": ("-n", "-r", "-o", "--torch"),
    "kernels": ("--lang", "--save", "--edit", "--ahead"),
    "graph": ("--level", "--pass", "--save"),
    "cache": ("ls", "path", "clear"),
}
"""What may come after the name."""
