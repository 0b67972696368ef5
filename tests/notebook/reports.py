"""Reports made by hand: the card needs no compiler to be drawn."""

from __future__ import annotations

from dynajit.report import (
    BreakInfo,
    EntryInfo,
    GraphInfo,
    GuardInfo,
    KernelReport,
    Line,
    NodeInfo,
    Report,
    Stage,
)

C_TEXT = 'void k0_gelu(void *const *p)\n{\n  /* <b> & "quotes" */\n  out[i] = 0.5f * h * erf(h);\n}\n'
TRITON_TEXT = "@triton.jit\ndef k0_gelu(p):\n    tl.store(out + i, 0.5 * h * erf(h))\n"


def small() -> Report:
    """One function with every kind of line."""
    source = (
        Line(2, "def block(x, w, debug=False):"),
        Line(3, "    h = x @ w", "captured", (0,)),
        Line(4, "    h = gelu(h)  # <script>alert(1)</script>", "inlined", (0,), ("k0_gelu",)),
        Line(5, "    if h.max() > 100:", "break", (), (), "a branch on a tensor value", "DJ-D001", "use torch.where"),
        Line(6, "        print('large')", "eager"),
        Line(7, "    return h.softmax(-1)", "captured", (1,)),
    )
    nodes = (
        NodeInfo("matmul", "call_function", "matmul", ("x", "w"), 3, "", "float32[8, 16]"),
        NodeInfo(
            "erf", "call_function", "erf", ("matmul",), 4, "/tmp/ipykernel_1/2.py:9", "float32[8, 16]", ("k0_gelu",)
        ),
        NodeInfo(
            "mul",
            "call_function",
            "mul",
            ("erf", "matmul"),
            4,
            "/tmp/ipykernel_1/2.py:9",
            "float32[8, 16]",
            ("k0_gelu",),
        ),
    )
    after = (NodeInfo("softmax", "call_method", "softmax", ("h",), 7, "", "float32[8, 16]"),)
    lines = ((4, 4),)
    return Report(
        "block", "/tmp/ipykernel_1/1.py", 2, "partly", source=source,
        graphs=(
            GraphInfo(0, 0, nodes, "def forward(self, x, w): ...", "native", 3),
            GraphInfo(1, 1, after, "", "native", 3),
        ),
        guards=(
            GuardInfo("x is a tensor float32[8, 16] on cpu", "TENSOR", "x", 3, 0, 2, "float32[9, 16] on cpu"),
            GuardInfo("debug is False", "IS", "debug", 2, 0),
        ),
        breaks=(BreakInfo(5, "DJ-D001", "a branch on a tensor value", "", "The data is needed.", "use torch.where"),),
        kernels=(
            KernelReport("k0_gelu", "c", C_TEXT, True, lines, ("erf", "mul"), 512, 512, 0.2),
            KernelReport("k0_gelu", "triton", TRITON_TEXT, False, ((3, 4),), ("erf", "mul"), note="not run here"),
        ),
        entries=(EntryInfo(0, None, "breaks at line 5", 3, 0, 2, "RESUME 0"), EntryInfo(1, 7, "returns", 3, 1, 0)),
        timeline=(Stage("capture", "5 lines", 0.012), Stage("build", "1 kernel", 0.4, True)),
        recompiles=("x is a tensor float32[8, 16] on cpu; now float32[9, 16] on cpu",),
        versions={"python": "3.11", "torch": "2.13"},
    )  # fmt: skip


def large(operations: int, lines: int) -> Report:
    """A function of many lines, each with a run of operations."""
    source = [Line(1, "def model(x):")]
    nodes: list[NodeInfo] = []
    for i in range(lines):
        source.append(Line(2 + i, f"    x = self.layers[{i}](x) + x * 0.5", "captured", (0,), (f"k{i}_add",)))
    for i in range(operations):
        line = 2 + i * lines // operations
        inputs = ("x",) if i == 0 else (f"n{i - 1}", f"n{max(0, i - 5)}")
        where = f"/usr/lib/python3/dist-packages/model.py:{i // 7}"
        kernels = (f"k{i * lines // operations}_add",)
        nodes.append(NodeInfo(f"n{i}", "call_function", "add", inputs, line, where, "float32[32, 128, 768]", kernels))
    kernel = "\n".join(f"  float v{i} = a[{i}] + b[{i}];" for i in range(40))
    kernels = tuple(
        KernelReport(f"k{i}_add", "c", kernel + f"\n// {i}", True, tuple((j, 2 + i) for j in range(1, 40)), ("add",))
        for i in range(min(lines, 100))
    )
    guards = tuple(GuardInfo(f"self.layers[{i}].training is False", "EQUALS", "self", 2, 0) for i in range(operations))
    text = "\n".join(f"n{i} = a + b" for i in range(operations))
    return Report(
        "model", "model.py", 1, "compiled", source=tuple(source),
        graphs=(GraphInfo(0, 0, tuple(nodes), text, "native"),),
        guards=guards, kernels=kernels, entries=(EntryInfo(0, None, "returns", 1, 0, len(guards), text),),
        timeline=(Stage("capture", "", 1.0),),
    )  # fmt: skip
