"""A graph whose inputs require gradients: native kernels forward and backward, seen by autograd as one function.

The forward pass returns what the backward pass will want; the cut between them is `schedule/cut.py`. What this does not
covers runs the graph as it stands under eager autograd, so it is right by construction: gradients of gradients, and
results whose gradient nobody asks for. Sizes and whole numbers that the capture found to differ from call to call are
inputs of both passes, so that one form serves all of them; what else an input is makes forms of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynajit.backends.base import CompiledGraph
from dynajit.lower.from_fx import NotLowerable
from dynajit.lower.joint import joint
from dynajit.lower.joint_graph import Joint, Root
from dynajit.lower.layouts import Layout, layout_of, strides_of
from dynajit.schedule.cut import Halves, halve

Call = Callable[..., tuple[Any, ...]]
Compile = Callable[..., CompiledGraph]  # (graph, inputs, owned=...), see `native`
_LETS_GO = hasattr(torch._C._FunctionBase, "maybe_clear_saved_tensors")
LIMIT = 8  # kinds of inputs, and of gradients, for which there may be kernels


@dataclass(frozen=True, eq=False)
class Recipe:
    """How the user's results come out of the distinct ones: ("result", k), ("input", k) or ("constant", value).

    Inputs are counted without numbers.
    """

    parts: tuple[tuple[str, Any], ...]
    differentiable: tuple[int, ...]

    def results(self, distinct: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            distinct[value] if kind == "result" else inputs[value] if kind == "input" else value
            for kind, value in self.parts
        )


def _recipe(made: Joint) -> tuple[Recipe, list[Node]]:
    distinct: dict[Node, int] = {}
    parts: list[tuple[str, Any]] = []
    for result in made.results:
        if not isinstance(result, Node):
            parts.append(("constant", result))
        elif result in made.inputs:
            parts.append(("input", made.inputs.index(result)))
        else:
            parts.append(("result", distinct.setdefault(result, len(distinct))))
    return Recipe(tuple(parts), tuple(distinct[node] for node in made.differentiable)), list(distinct)


@dataclass(eq=False)
class Trained:
    """One form of a graph, for inputs of one kind. roots: the sizes that may differ. examples: the inputs it was made
    for, tensors as `_Example`. backwards: by the layouts of the gradients that come in.
    """

    gm: GraphModule
    whole: Call
    compile: Compile
    roots: tuple[Root, ...]
    examples: tuple[Any, ...]
    made: Joint
    recipe: Recipe
    distinct: list[Node]
    halves: Halves
    forward: CompiledGraph
    backwards: dict[tuple[Layout, ...], CompiledGraph | None] = field(default_factory=dict)
    backward: Call | None = None
    strides: tuple[Any, ...] = ()  # of the gradients for which `backward` was chosen

    def __post_init__(self) -> None:
        recipe, halves = self.recipe, self.halves
        self.only_tensors = all(isinstance(x, _Example) for x in self.examples)
        forward, results = self.forward.fn, halves.results
        plain = [k for k in range(results) if k not in recipe.differentiable]

        class Step(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, numbers: Sequence[Any], sizes: Sequence[int], *inputs: Any) -> Any:
                ctx.random = torch.get_rng_state() if self.made.random else None
                made = forward(*inputs, *sizes)
                ctx.set_materialize_grads(False)
                ctx.save_for_backward(*made[results:])
                ctx.inputs, ctx.numbers, ctx.sizes = inputs, numbers, sizes
                ctx.versions = [x._version for x in inputs]
                if plain:
                    ctx.mark_non_differentiable(*(made[k] for k in plain))
                return made[:results]

            @staticmethod
            def backward(ctx: Any, *tangents: Any) -> Any:
                return None, None, *self.gradients(ctx, tangents)

        self.apply: Callable[..., tuple[Any, ...]] = Step.apply

    def call(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        tensors = inputs if self.only_tensors else tensors_of(inputs)
        numbers = [] if self.only_tensors else [x for x in inputs if not isinstance(x, torch.Tensor)]
        sizes = [inputs[r.position] if r.dim is None else inputs[r.position].shape[r.dim] for r in self.roots]
        return self.recipe.results(self.apply(numbers, sizes, *tensors), tensors)

    # -- backward ------------------------------------------------------------------------------------------------

    def gradients(self, ctx: Any, given: Sequence[Any]) -> tuple[Any, ...]:
        tangents = [given[k] for k in self.recipe.differentiable]
        if torch.is_grad_enabled() or any(tangent is None for tangent in tangents):
            return self._by_autograd(ctx, tangents)
        strides = tuple(tangent.stride() for tangent in tangents)
        if strides != self.strides:
            self._choose(strides, tangents)
        backward = self.backward
        if backward is None:
            layouts, first = next((layouts, half) for layouts, half in self.backwards.items() if half is not None)
            tangents = [_laid_out(tangent, layout) for tangent, layout in zip(tangents, layouts, strict=True)]
            backward = first.fn
        arguments = [*ctx.saved_tensors, *tangents, *ctx.sizes]
        del tangents
        if _LETS_GO:  # unless the graph is kept, what was saved is free after its last use, as in eager
            ctx.maybe_clear_saved_tensors()
        made = backward(arguments)
        found: list[Any] = [None] * len(self.made.inputs)
        for k, gradient in zip(self.made.gradients, made, strict=True):
            found[k] = gradient
        return tuple(found)

    def _choose(self, strides: tuple[Any, ...], tangents: Sequence[torch.Tensor]) -> None:
        """The backward pass for gradients laid out like this: its own, or None for that of the example."""
        layouts = tuple(layout_of(tangent.shape, tangent.stride()) for tangent in tangents)
        if layouts not in self.backwards and len(self.backwards) < LIMIT:
            self.backwards[layouts] = self._other(layouts)
        compiled = self.backwards.get(layouts)
        self.backward, self.strides = compiled.fn if compiled is not None else None, strides

    def _other(self, layouts: tuple[Layout, ...]) -> CompiledGraph | None:
        examples = [x.tensor() if isinstance(x, _Example) else x for x in self.examples]
        try:
            made = joint(self.gm, examples, layouts, self.roots)
        except NotLowerable:
            return None
        named = {node.name: node for node in made.graph.nodes}
        saved = [named.get(node.name) for node in self.halves.saved]
        halves = halve(made, _recipe(made)[1], [node for node in saved if node is not None])
        if halves is None or None in saved or list(made.gradients) != list(self.made.gradients):
            return None
        return _compile_backward(halves, made, self.compile, tensors_of(examples)[0].device)

    def _by_autograd(self, ctx: Any, tangents: Sequence[Any]) -> tuple[Any, ...]:
        """The graph once more, by eager kernels: for gradients of gradients, and where some gradient is not there."""
        if [x._version for x in ctx.inputs] != ctx.versions and not self.made.mutated:
            raise RuntimeError("an input of a compiled function was written to before its gradient was computed")
        again = torch.is_grad_enabled()
        needed = [x.requires_grad and need for x, need in zip(ctx.inputs, ctx.needs_input_grad[2:], strict=True)]
        with torch.enable_grad(), torch.random.fork_rng([], enabled=ctx.random is not None):
            if ctx.random is not None:
                torch.set_rng_state(ctx.random)
            inputs = [
                x.clone()
                if k in self.made.mutated
                # Of its own: what was computed before the graph is not to be walked through.
                else (x.view_as(x) if again else x.detach().requires_grad_(x.requires_grad))
                if x.requires_grad
                else x
                for k, x in enumerate(ctx.inputs)
            ]
            tensors, numbers = iter(inputs), iter(ctx.numbers)
            results = self.whole(*(next(tensors if isinstance(x, _Example) else numbers) for x in self.examples))
            distinct: dict[int, Any] = {}
            for (kind, value), result in zip(self.recipe.parts, results, strict=True):
                if kind == "result":
                    distinct[value] = result
            outs = [distinct[k] for k in self.recipe.differentiable]
            pairs = [(out, tangent) for out, tangent in zip(outs, tangents, strict=True) if tangent is not None]
            asked = [x for x, need in zip(inputs, needed, strict=True) if need]
            grads = iter(
                torch.autograd.grad(
                    [out for out, _ in pairs], asked, [t for _, t in pairs], create_graph=again, allow_unused=True
                )
                if pairs and asked
                else [None] * len(asked)
            )
        return tuple(next(grads) if need else None for need in needed)


@dataclass(frozen=True)
class _Example:
    """What a tensor was, without its data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    def tensor(self) -> torch.Tensor:
        """A tensor of which only the kind matters: its memory is never touched."""
        made = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        return made.requires_grad_() if self.requires_grad else made


def _example_of(x: torch.Tensor) -> _Example:
    return _Example(tuple(x.shape), x.stride(), x.dtype, x.device, x.requires_grad)


# For each input of a graph: its sizes in the other call by dimension, its value there, FIXED if it is of one kind in
# every call, because the guards see to that, or else None.
Others = Sequence[Any]
FIXED = object()


def others_of(gm: GraphModule) -> Others:
    """What the capture says of the graph's inputs: which sizes and whole numbers differ from call to call."""
    found: list[Any] = []
    for node in gm.graph.find_nodes(op="placeholder"):
        other, value = node.meta.get("other"), node.meta.get("val")
        # Guards do not look at the strides of dimensions of size 1.
        fixed = isinstance(value, torch.Tensor) and not {0, 1} & {*value.shape}
        found.append(node.meta.get("sizes") or (other if type(other) is int else FIXED if fixed else None))
    return found


def roots_of(inputs: Sequence[Any], others: Others) -> tuple[Root, ...]:
    """The sizes that a form for these inputs takes as they come. Ones and zeros are cases of their own."""
    roots: list[Root] = []
    for k, (x, other) in enumerate(zip(inputs, others, strict=True)):
        if isinstance(x, torch.Tensor) and isinstance(other, dict):
            if _comes_in_any_size(x, other):
                roots += [Root(k, d, x.shape[d], size) for d, size in other.items()]
        elif type(x) is int and type(other) is int and x > 1 and other > 1:
            roots.append(Root(k, None, x, other))
    return tuple(roots)


def _comes_in_any_size(x: torch.Tensor, other: dict[int, int]) -> bool:
    return min(x.shape) > 1 and (x.is_contiguous() or layout_of(x.shape, x.stride())[0] == "order")


def kind_of(inputs: Sequence[Any], others: Others) -> tuple[Any, ...]:
    """All that a form depends on: of a number, all of it, unless it may differ."""
    return tuple([_kind(x, other) for x, other in zip(inputs, others, strict=True) if other is not FIXED])


def _kind(x: Any, other: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return int if type(x) is int and type(other) is int and x > 1 and other > 1 else x
    if not isinstance(other, dict) or not _comes_in_any_size(x, other):
        return x.shape, x.stride(), x.dtype, x.device, x.requires_grad
    shape = tuple(None if d in other else size for d, size in enumerate(x.shape))
    order = None if x.is_contiguous() else layout_of(x.shape, x.stride())
    return shape, order, x.dtype, x.device, x.requires_grad


def tensors_of(inputs: Sequence[Any]) -> list[torch.Tensor]:
    return [x for x in inputs if isinstance(x, torch.Tensor)]


def _laid_out(tangent: torch.Tensor, layout: Layout) -> torch.Tensor:
    strides = strides_of(layout, tangent.shape)
    if tangent.stride() == strides:
        return tangent
    return torch.empty_strided(tangent.shape, strides, dtype=tangent.dtype, device=tangent.device).copy_(tangent)


def _compile_backward(halves: Halves, made: Joint, compile_: Compile, device: torch.device) -> CompiledGraph:
    values = [node.meta["val"] for node in (*halves.saved, *made.tangents)]
    examples = [_Example(tuple(x.shape), x.stride(), x.dtype, device, False).tensor() for x in values]
    with torch.no_grad():
        return compile_(halves.backward, [*examples, *(node.meta["val"] for node in made.sizes)], owned=True)


def trained(
    gm: GraphModule, inputs: Sequence[Any], whole: Call, compile_: Compile, roots: tuple[Root, ...] = ()
) -> Trained:
    """Compile both passes for inputs like these. Raises NotLowerable where eager autograd has to run the graph."""
    made = joint(gm, inputs, roots=roots)
    recipe, distinct = _recipe(made)
    halves = halve(made, distinct)
    assert halves is not None
    with torch.no_grad():
        sizes = [node.meta["val"] for node in made.sizes]
        forward = compile_(halves.forward, [*(x.detach() for x in tensors_of(inputs)), *sizes])
    examples = tuple(_example_of(x) if isinstance(x, torch.Tensor) else x for x in inputs)
    form = Trained(gm, whole, compile_, roots, examples, made, recipe, distinct, halves, forward)
    tangents = [node.meta["val"] for node in made.tangents]
    form.strides = tuple(x.stride() for x in tangents)
    layouts = tuple(layout_of(x.shape, x.stride()) for x in tangents)
    compiled = form.backwards[layouts] = _compile_backward(halves, made, compile_, tensors_of(inputs)[0].device)
    form.backward = compiled.fn
    return form


def trained_in_any_size(gm: GraphModule, inputs: Sequence[Any], whole: Call, compile_: Compile) -> Trained:
    """The same for all sizes that may differ, if that can be, else for these. Raises NotLowerable where neither can."""
    roots = roots_of(inputs, others_of(gm))
    if roots:
        with contextlib.suppress(NotLowerable):
            return trained(gm, inputs, whole, compile_, roots)
    return trained(gm, inputs, whole, compile_)


class TrainedForms:
    """The forms of one graph, by the kind of its inputs."""

    def __init__(self, first: Trained, inputs: Sequence[Any]) -> None:
        self.first, self.whole = first, first.whole
        others = others_of(first.gm)
        self.others = others if first.roots else [FIXED if other is FIXED else None for other in others]
        self.kind, self.current = kind_of(inputs, self.others), first
        self.forms: dict[Any, Trained | None] = {self.kind: first}

    def call(self, *inputs: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack():
            return self.whole(*inputs)
        kind = kind_of(inputs, self.others)
        if kind != self.kind:
            form = self._form(kind, inputs)
            if form is None:
                return self.whole(*inputs)
            self.kind, self.current = kind, form
        return self.current.call(inputs)

    def _form(self, kind: Any, inputs: Sequence[Any]) -> Trained | None:
        if kind not in self.forms:
            if len(self.forms) >= LIMIT or not any(x.requires_grad for x in tensors_of(inputs)):
                return None
            try:
                roots = roots_of(inputs, self.others)
                self.forms[kind] = trained(self.first.gm, inputs, self.whole, self.first.compile, roots)
            except NotLowerable:
                self.forms[kind] = None
        return self.forms[kind]
