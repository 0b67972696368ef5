"""A torch-level graph and its backward pass as one graph of aten calls.

Both are recorded: autograd runs on meta tensors, so the calls are those that eager makes, in eager's order, with its
additions of gradients. Sizes and numbers are those of the example, unless the capture found that some differ from call
to call. Then the passes are recorded once more, in the sizes of the other call that the capture made up (symbol.py):
numbers that are the same in both are constants, and the others are computed in each call from the sizes of the inputs.
"""

from __future__ import annotations

import operator
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule, Node

from dynajit.lower.aten import Recorder, is_random, meta_like
from dynajit.lower.build import SUPPORTED
from dynajit.lower.from_fx import (
    HIDDEN_WRITES,
    NotLowerable,
    changes_autograd,
    device_of,
    may_run_without_tensors,
)
from dynajit.lower.joint_graph import Joint, Root, with_sizes, without_repeats
from dynajit.lower.layouts import Layout, layout_of, strides_of
from dynajit.lower.program import leaves, tree_map
from dynajit.lower.shapes import META

aten: Any = torch.ops.aten
FLASH = 1  # SDPBackend.FLASH_ATTENTION


def joint(
    gm: GraphModule, inputs: Sequence[Any], tangents: Sequence[Layout] | None = None, roots: Sequence[Root] = ()
) -> Joint:
    """Record both passes for inputs like these. tangents: their layouts, where not those of the results. roots: the
    sizes that become inputs of the graph.

    Raises NotLowerable where eager autograd has to run the graph.
    """
    if any(not isinstance(x, (torch.Tensor, int, float)) for x in inputs):
        raise NotLowerable("with gradients, arguments that are neither tensors nor numbers run under eager autograd")
    device = device_of(inputs)
    grad_enabled = torch.is_grad_enabled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            first = _Recording(gm, inputs, device, _shapes(inputs))
            made = first.run(tangents)
            if roots:
                others = [*inputs]
                for root in roots:
                    if root.dim is None:
                        others[root.position] = root.other
                second = _Recording(gm, others, device, _shapes(inputs, roots), first.choices)
                made = with_sizes(made, second.run(tangents), roots)
        except NotLowerable:
            raise
        except Exception as error:
            raise NotLowerable(f"with gradients: {type(error).__name__}: {error}".split("\n")[0]) from error
        finally:
            torch.set_grad_enabled(grad_enabled)
    if caught:
        raise NotLowerable(f"with gradients, it warns: {caught[0].message}")
    return without_repeats(made)


class _Mode(Recorder):  # type: ignore[no-untyped-call]
    """Hands every aten call to the recording."""

    def __init__(self, recording: _Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.calls.clear()
        self.recording.take(func, args, kwargs or {}, result)
        return result


@dataclass
class _Recording:
    gm: GraphModule
    examples: Sequence[Any]
    device: str
    shapes: Sequence[_Shape]
    attention: Sequence[int] | None = None  # what an earlier recording picked
    choices: list[int] = field(default_factory=list)
    graph: Graph = field(default_factory=Graph)
    nodes: dict[Any, Node] = field(default_factory=dict)  # by what tells a tensor from others, see `_key`
    stores: dict[int, list[Node]] = field(default_factory=dict)  # by storage, the nodes of tensors in it
    kept: list[Any] = field(default_factory=list)  # so that no storage is used twice
    backward: set[Node] = field(default_factory=set)
    written: set[Node] = field(default_factory=set)
    starts: list[int] = field(default_factory=list)  # autograd's numbers at which the calls of a node begin ...
    origins: list[Node | None] = field(default_factory=list)  # ... and those nodes
    origin: Node | None = None
    random: bool = False
    in_backward: bool = False

    def run(self, layouts: Sequence[Layout] | None) -> Joint:
        placed = [
            self._input(x, shape) if isinstance(x, torch.Tensor) else x
            for x, shape in zip(self.examples, self.shapes, strict=True)
        ]
        placeholders = [node for node in self.gm.graph.nodes if node.op == "placeholder"]
        env: dict[Node, Any] = dict(zip(placeholders, placed, strict=True))
        metas = [x for x in placed if isinstance(x, torch.Tensor)]
        inputs = tuple(self.nodes[_key(x)] for x in metas)
        wants = [x.requires_grad for x in metas]
        with torch.enable_grad(), _Mode(self):
            results = self._forward(env)
        if wants != [x.requires_grad for x in metas]:
            raise NotLowerable("an input is written to with something that has a gradient")
        mutated = frozenset(k for k, node in enumerate(inputs) if node in self.written)
        if any(wants[k] for k in mutated):
            raise NotLowerable("an input that requires a gradient is written to")
        results = tuple(results)
        tensors = self._distinct(results, metas)
        outs = [x for x in tensors if x.requires_grad]
        if not outs:
            raise NotLowerable("no result has a gradient")
        for x in outs:
            if x.dtype not in SUPPORTED:
                raise NotLowerable(f"a result of {x.dtype}")
        shaped = (
            [strides_of(layout, x.shape) for layout, x in zip(layouts, outs, strict=True)]
            if layouts is not None
            else [x.stride() for x in outs]
        )
        given = [
            torch.empty_strided(x.shape, step, dtype=x.dtype, device=META) for x, step in zip(outs, shaped, strict=True)
        ]
        tangents = tuple(self._place(x, "tangent") for x in given)
        asked = [x for x in metas if x.requires_grad]
        self.starts.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
        self.origins.append(None)
        self.in_backward = True
        with torch.no_grad(), _Mode(self):
            grads = torch.autograd.grad(outs, asked, given, allow_unused=True)
        positions = [k for k, x in enumerate(metas) if x.requires_grad]
        gradients = {k: self._node(g) for k, g in zip(positions, grads, strict=True) if g is not None}
        for k, grad in zip(positions, grads, strict=True):
            if grad is not None and (grad.dtype != metas[k].dtype or grad.shape != metas[k].shape):
                raise NotLowerable("a gradient of another kind than its input")
        return Joint(
            self.graph,
            inputs,
            tangents,
            tuple(self._node(x) if isinstance(x, torch.Tensor) else x for x in results),
            tuple(self._node(x) for x in outs),
            gradients,
            frozenset(self.backward),
            frozenset(self.written),
            mutated,
            self.random,
        )

    # -- the torch-level graph -----------------------------------------------------------------------------------

    def _forward(self, env: dict[Node, Any]) -> Sequence[Any]:
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                output = tree_map(lambda leaf: env[leaf] if isinstance(leaf, Node) else leaf, node.args[0])
                return output if isinstance(output, (tuple, list)) else (output,)
            if node.op not in ("call_function", "call_method") or changes_autograd(node):
                raise NotLowerable(f"with gradients: {node.target}")
            args, kwargs = (
                tree_map(lambda leaf: env[leaf] if isinstance(leaf, Node) else leaf, part)
                for part in (node.args, dict(node.kwargs))
            )
            tensors = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            if not tensors and node.target is not torch._C._set_grad_enabled and not may_run_without_tensors(node):
                raise NotLowerable(f"with gradients: nothing is known of {node.target}")
            self.starts.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
            self.origins.append(node)
            self.origin = node
            env[node] = self._call(node, args, kwargs)
            self.kept.append(env[node])
        raise NotLowerable("the graph has no output")

    def _call(self, node: Node, args: Any, kwargs: Any) -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.target is F.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if node.target is torch.tensor and self.device == "cpu":
            return self._constant(args, kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _constant(self, args: Any, kwargs: Any) -> torch.Tensor:
        """`torch.tensor(data)`, such as the empty beginning of a cache: its data come from Python, by no aten call."""
        with torch._C._DisableTorchDispatch():
            made = meta_like(torch.tensor(*args, **kwargs))
        self._bind(made, self.graph.call_function(torch.tensor, args, kwargs))
        return made

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """By the kernel that eager picks for tensors of these shapes: on the meta device it would pick another."""
        if self.device != "cpu":
            raise NotLowerable("attention with gradients runs under eager autograd")
        options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        if self.attention is not None:
            choice = self.attention[len(self.choices)]
        else:
            with torch._C._DisableTorchDispatch():  # real tensors, of which only the kind matters
                like = [None if x is None else _real(x) for x in (query, key, value, attn_mask)]
                choice = torch._fused_sdp_choice(*like, **options)  # type: ignore[arg-type]
        self.choices.append(choice)
        if choice != FLASH:
            return F.scaled_dot_product_attention(query, key, value, attn_mask, **options)  # type: ignore[arg-type]
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(attn_mask.logical_not(), -torch.inf)
        made = aten._scaled_dot_product_flash_attention_for_cpu.default(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
        return made[0]  # type: ignore[no-any-return]

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _input(self, example: torch.Tensor, shape: _Shape) -> torch.Tensor:
        plain = type(example) in (torch.Tensor, torch.nn.Parameter) and example.layout == torch.strided
        if not plain or example.dtype not in SUPPORTED or example.device.type == "meta":
            raise NotLowerable(f"with gradients, {type(example).__name__} of {example.dtype} runs under eager autograd")
        made = torch.empty_strided(*shape, dtype=example.dtype, device=META).requires_grad_(example.requires_grad)
        self._place(made, "input")
        return made

    def _place(self, x: torch.Tensor, name: str) -> Node:
        node = self.graph.placeholder(f"{name}_{len(self.graph.nodes)}")
        node.meta["val"] = meta_like(x)
        self._bind(x, node)
        return node

    def _bind(self, x: torch.Tensor, node: Node) -> None:
        self.kept.append(x)
        self.nodes[_key(x)] = node
        self.stores.setdefault(_storage(x), []).append(node)
        node.meta["val"] = meta_like(x)
        node.meta["storage"] = _storage(x)

    def _node(self, x: torch.Tensor) -> Node:
        node = self.nodes.get(_key(x))
        if node is None:
            raise NotLowerable("with gradients, a tensor from elsewhere")
        return node

    def take(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """One aten call of either pass becomes a node."""
        if isinstance(result, torch.Tensor) and not func._schema.is_mutable and _key(result) in self.nodes:
            self.kept.append(result)  # the same tensor once more: detach, or a view that changes nothing
            return
        if is_random(func, args):
            self.random = True
            if self.device != "cpu":
                raise NotLowerable("random numbers with gradients run under eager autograd")
        placed = tree_map(self._argument, args)
        named = {name: tree_map(self._argument, leaf) for name, leaf in kwargs.items()}
        node = self.graph.call_function(func, placed, named)
        origin = self._origin()
        if origin is not None and "position" in origin.meta:
            node.meta["position"] = origin.meta["position"]
        self._mark(node)
        for argument, given in zip(
            func._schema.arguments, (*args, *([None] * len(func._schema.arguments))), strict=False
        ):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for x in leaves(kwargs.get(argument.name) if given is None else given):
                    if isinstance(x, torch.Tensor):
                        self.written.update(self.stores.get(_storage(x), ()))
        if func in HIDDEN_WRITES and args[5]:
            for x in args[3:5]:
                self.written.update(self.stores.get(_storage(x), ()) if x is not None else ())
        if isinstance(result, torch.Tensor):
            self._bind(result, node)
        elif isinstance(result, (tuple, list)):
            self.kept.append(result)
            for k, x in enumerate(result):
                if isinstance(x, torch.Tensor):
                    part = self.graph.call_function(operator.getitem, (node, k))
                    part.meta.update(node.meta)
                    self._mark(part)
                    self._bind(x, part)

    def _mark(self, node: Node) -> None:
        if self.in_backward:
            self.backward.add(node)

    def _argument(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self._node(leaf)
        if isinstance(leaf, torch.device):
            if leaf.type not in ("meta", self.device):
                raise NotLowerable(f"a tensor on {leaf}")
            return next(x.device for x in self.examples if isinstance(x, torch.Tensor)) if leaf.type == "meta" else leaf
        if isinstance(leaf, torch.Generator):
            raise NotLowerable("a generator of random numbers")
        return leaf

    def _origin(self) -> Node | None:
        """The torch-level node whose call this is, or whose gradient it computes."""
        if not self.in_backward:
            return self.origin
        current = torch._C._current_autograd_node()
        if current is None:
            return None
        return self.origins[max(bisect_right(self.starts, current._sequence_nr()) - 1, 0)]

    def _distinct(self, results: Sequence[Any], metas: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors among the results, each once, inputs left out. Autograd treats views of each other as one."""
        tensors = {id(x): x for x in results if isinstance(x, torch.Tensor)}
        own = {id(x) for x in metas}
        if any(
            isinstance(leaf, torch.Tensor) for x in results if not isinstance(x, torch.Tensor) for leaf in leaves(x)
        ):
            raise NotLowerable("nested results with gradients")
        found = [x for x in tensors.values() if id(x) not in own]
        stores = [_storage(x) for x in (*metas, *found)]
        if len({*stores[len(metas) :]}) < len(found) or {*stores[: len(metas)]} & {*stores[len(metas) :]}:
            raise NotLowerable("with gradients, a result that shares memory with an input or another result")
        return found


_Shape = tuple[tuple[int, ...], tuple[int, ...]]  # sizes and strides; of a number: nothing


def _shapes(inputs: Sequence[Any], roots: Sequence[Root] = ()) -> list[_Shape]:
    """The shapes of the inputs in this call, or with the roots of the other one."""
    made: list[_Shape] = []
    for k, x in enumerate(inputs):
        if not isinstance(x, torch.Tensor):
            made.append(((), ()))
            continue
        changed = {root.dim: root.other for root in roots if root.position == k}
        shape = tuple(changed.get(d, size) for d, size in enumerate(x.shape))
        made.append((shape, strides_of(layout_of(x.shape, x.stride()), shape) if changed else x.stride()))
    return made


def _real(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    return made.requires_grad_() if x.requires_grad else made


def _storage(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _key(x: torch.Tensor) -> Any:
    """Equal for tensor objects that are the same elements in memory: autograd makes new objects of what it saved."""
    return _storage(x), x.storage_offset(), x.shape, x.stride(), x.dtype
