"""A graph whose inputs require gradients: native kernels forward and backward, seen by autograd as one function.

The forward pass returns what the backward pass will want; the cut between them is `schedule/cut.py`. What this does not
cover runs the graph as it stands under eager autograd, so it is right by construction: gradients of gradients, results
whose gradient nobody asks for, and inputs of other shapes than those of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynajit.backends.base import CompiledGraph
from dynajit.lower.from_fx import NotLowerable
from dynajit.lower.joint import Joint, joint
from dynajit.schedule.cut import Halves, halve

Call = Callable[..., tuple[Any, ...]]
Compile = Callable[[GraphModule, Sequence[Any]], CompiledGraph]
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
    """One form of a graph, for inputs of one kind. backwards: by the strides of the gradients that come in."""

    gm: GraphModule
    whole: Call
    compile: Compile
    kind: tuple[Any, ...]
    made: Joint
    recipe: Recipe
    distinct: list[Node]
    halves: Halves
    forward: CompiledGraph
    backwards: dict[Any, CompiledGraph | None] = field(default_factory=dict)
    backward: Call | None = None
    strides: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        recipe, halves = self.recipe, self.halves
        forward, results = self.forward.fn, halves.results
        plain = [k for k in range(results) if k not in recipe.differentiable]

        class Step(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                ctx.random = torch.get_rng_state() if self.made.random else None
                made = forward(*inputs)
                ctx.set_materialize_grads(False)
                ctx.save_for_backward(*made[results:])
                ctx.inputs = inputs
                ctx.versions = [x._version for x in inputs]
                if plain:
                    ctx.mark_non_differentiable(*(made[k] for k in plain))
                return made[:results]

            @staticmethod
            def backward(ctx: Any, *tangents: Any) -> Any:
                return self.gradients(ctx, tangents)

        self.apply: Callable[..., tuple[Any, ...]] = Step.apply

    def call(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        tensors = tensors_of(inputs)
        return self.recipe.results(self.apply(*tensors), tensors)

    # -- backward ------------------------------------------------------------------------------------------------

    def gradients(self, ctx: Any, given: Sequence[Any]) -> tuple[Any, ...]:
        tangents = [given[k] for k in self.recipe.differentiable]
        if torch.is_grad_enabled() or any(tangent is None for tangent in tangents):
            return self._by_autograd(ctx, tangents)
        strides = tuple(tangent.stride() for tangent in tangents)
        if strides != self.strides:
            self._choose(strides)
        saved = ctx.saved_tensors
        if self.backward is None:
            tangents = [_laid_out(t, node.meta["val"]) for t, node in zip(tangents, self.made.tangents, strict=True)]
            made = self._first().fn(*saved, *tangents)
        else:
            made = self.backward(*saved, *tangents)
        found: list[Any] = [None] * len(self.made.inputs)
        for k, gradient in zip(self.made.gradients, made, strict=True):
            found[k] = gradient
        return tuple(found)

    def _first(self) -> CompiledGraph:
        return next(compiled for compiled in self.backwards.values() if compiled is not None)

    def _choose(self, strides: tuple[Any, ...]) -> None:
        """The backward pass for gradients laid out like this: its own, or None for that of the example."""
        if strides not in self.backwards and len(self.backwards) < LIMIT:
            self.backwards[strides] = self._other(strides)
        compiled = self.backwards.get(strides)
        self.backward, self.strides = compiled.fn if compiled is not None else None, strides

    def _other(self, strides: tuple[Any, ...]) -> CompiledGraph | None:
        tensors = [_example(node, x.requires_grad, x.device) for node, x in self._inputs()]
        left = iter(tensors)
        examples = [next(left) if isinstance(kind, tuple) else kind for kind in self.kind]
        try:
            made = joint(self.gm, examples, strides)
        except NotLowerable:
            return None
        named = {node.name: node for node in made.graph.nodes}
        saved = [named.get(node.name) for node in self.halves.saved]
        halves = halve(made, _recipe(made)[1], [node for node in saved if node is not None])
        if halves is None or None in saved or list(made.gradients) != list(self.made.gradients):
            return None
        return _compile_backward(halves, made, self.compile, tensors[0].device)

    def _inputs(self) -> list[tuple[Node, Any]]:
        kinds = [kind for kind in self.kind if isinstance(kind, tuple)]
        return [(node, _Kind(*kind)) for node, kind in zip(self.made.inputs, kinds, strict=True)]

    def _by_autograd(self, ctx: Any, tangents: Sequence[Any]) -> tuple[Any, ...]:
        """The graph once more, by eager kernels: for gradients of gradients, and where some gradient is not there."""
        if [x._version for x in ctx.inputs] != ctx.versions and not self.made.mutated:
            raise RuntimeError("an input of a compiled function was written to before its gradient was computed")
        again = torch.is_grad_enabled()
        needed = [x.requires_grad and need for x, need in zip(ctx.inputs, ctx.needs_input_grad, strict=True)]
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
            tensors = iter(inputs)
            results = self.whole(*(next(tensors) if isinstance(k, tuple) else k for k in self.kind))
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
class _Kind:
    shape: Any
    stride: Any
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool


def kind_of(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """All that the joint graph depends on: of a number, all of it."""
    return tuple(
        (x.shape, x.stride(), x.dtype, x.device, x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs
    )


def tensors_of(inputs: Sequence[Any]) -> list[torch.Tensor]:
    return [x for x in inputs if isinstance(x, torch.Tensor)]


def _laid_out(tangent: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if tangent.stride() == like.stride():
        return tangent
    return torch.empty_strided(like.shape, like.stride(), dtype=tangent.dtype, device=tangent.device).copy_(tangent)


def _example(node: Node, requires_grad: bool, device: torch.device) -> torch.Tensor:
    """A tensor of which only the kind matters: its memory is never touched."""
    value = node.meta["val"]
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return made.requires_grad_() if requires_grad else made


def _compile_backward(halves: Halves, made: Joint, compile_: Compile, device: torch.device) -> CompiledGraph:
    nodes = [*halves.saved, *made.tangents]
    with torch.no_grad():
        return compile_(halves.backward, [_example(node, False, device) for node in nodes])


def trained(gm: GraphModule, inputs: Sequence[Any], whole: Call, compile_: Compile) -> Trained:
    """Compile both passes for inputs like these. Raises NotLowerable where eager autograd has to run the graph."""
    made = joint(gm, inputs)
    recipe, distinct = _recipe(made)
    halves = halve(made, distinct)
    assert halves is not None
    with torch.no_grad():
        forward = compile_(halves.forward, [x.detach() for x in tensors_of(inputs)])
    form = Trained(gm, whole, compile_, kind_of(inputs), made, recipe, distinct, halves, forward)
    form.strides = tuple(node.meta["val"].stride() for node in made.tangents)
    compiled = form.backwards[form.strides] = _compile_backward(halves, made, compile_, tensors_of(inputs)[0].device)
    form.backward = compiled.fn
    return form


class TrainedForms:
    """The forms of one graph, by the kind of its inputs."""

    def __init__(self, first: Trained) -> None:
        self.first, self.whole = first, first.whole
        self.forms: dict[Any, Trained | None] = {first.kind: first}
        self.kind, self.current = first.kind, first

    def call(self, *inputs: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack():
            return self.whole(*inputs)
        kind = kind_of(inputs)
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
                self.forms[kind] = trained(self.first.gm, inputs, self.whole, self.first.compile)
            except NotLowerable:
                self.forms[kind] = None
        return self.forms[kind]
