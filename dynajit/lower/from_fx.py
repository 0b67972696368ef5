"""A captured graph -> a `Program`: each node is recorded on meta tensors; if all its aten calls lower, it becomes
values, else it stays the torch-level call it is, so that composite operations keep eager's own path.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynajit.errors import LoweringError
from dynajit.lower import ops as _rules
from dynajit.lower.aten import Call, Record, is_random, meta_like, record
from dynajit.lower.build import HALVES, SUPPORTED, Unsupported
from dynajit.lower.common import without_repeats
from dynajit.lower.facts import SAID, SIZELESS, extents_of, is_slow
from dynajit.lower.ir import LEAVES, VIEWS, Buffer, Origin, Value
from dynajit.lower.lowering import RESHAPES, lower
from dynajit.lower.moving import SINCE
from dynajit.lower.program import Compute, Extern, Item, Program, leaves, tree_map
from dynajit.lower.shapes import WHOLE, NoRule

_ = _rules  # imported for the rules they register

# Nothing is known of what these return, and they may do anything.
UNKNOWN = object()

_FACTORIES = (
    "zeros ones full empty arange tensor as_tensor scalar_tensor eye linspace logspace rand randn randint randperm"
    " empty_strided tril_indices triu_indices"
)
FACTORIES = frozenset(_FACTORIES.split())
# Autograd's bookkeeping: a graph with one of these runs under eager autograd as a whole.
IN_PLACE = frozenset((operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.iand, operator.ior))
AUTOGRAD = frozenset(("requires_grad_", "retain_grad", "backward", "register_hook", "detach_"))
_LEAVES = (torch.nn.Parameter, torch.nn.Buffer, torch.autograd.Variable)


def changes_autograd(node: Node) -> bool:
    """Whether a call decides what autograd does from here on: a new tensor that requires a gradient, a hook."""
    return node.target in AUTOGRAD or node.target in _LEAVES or bool(node.kwargs.get("requires_grad"))


def makes_gradients(graph: Graph) -> bool:
    """Whether something in the graph requires a gradient although no input does."""
    values = (node.meta.get("val") for node in graph.nodes if node.op in ("call_function", "call_method"))
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


UNSAFE_VIEW = torch.ops.aten._unsafe_view.default
# With `training`, these update running statistics without saying so in their schema.
HIDDEN_WRITES = frozenset((torch.ops.aten.native_batch_norm.default, torch.ops.aten.cudnn_batch_norm.default))
VIEW_OPS = RESHAPES | {
    torch.ops.aten.permute.default,
    torch.ops.aten.transpose.int,
    torch.ops.aten.t.default,
    torch.ops.aten.expand.default,
    *(torch.ops.aten.slice.Tensor, torch.ops.aten.select.int, torch.ops.aten.unbind.int),
    *(torch.ops.aten.split.Tensor, torch.ops.aten.split_with_sizes.default),
}


class NotLowerable(LoweringError):
    """The whole graph has to run as it stands."""

    def __init__(self, why: str) -> None:
        super().__init__("lowering", "the graph runs as it stands", why)


def from_fx(gm: GraphModule, example_inputs: Sequence[Any], as_they_are: Mapping[str, str] | None = None) -> Program:
    """Lower what can be lowered. as_they_are: names of nodes that have to run as they stand, with the reason."""
    once = without_repeats(gm.graph)
    graph = _without_writes_in_place(once)
    SINCE.set(0)
    reader = _Reader(as_they_are or {}, device_of(example_inputs), graph is not once)
    inputs, tensors = list[Node](), list[Node]()
    for node in graph.nodes:
        if node.op == "placeholder":
            example = example_inputs[len(inputs)]
            reader.placeholder(node, example)
            inputs.append(node)
            if isinstance(example, torch.Tensor):
                tensors.append(node)
        elif node.op == "output":
            return reader.program(inputs, tensors, node.args[0])
        else:
            reader.call(node)
    raise NotLowerable("the graph has no output")


def _without_writes_in_place(graph: Graph) -> Graph:
    """A copy to be edited, if there is a write in place that might become a new value; else the graph itself."""

    def writes(node: Node) -> bool:
        target: Any = node.target
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        inplace = node.kwargs.get("inplace") is True or True in node.args
        return (name.endswith("_") and not name.endswith("__")) or target in IN_PLACE or inplace

    if not any(writes(node) for node in graph.nodes if node.op.startswith("call")):
        return graph
    copy = Graph()
    output = copy.graph_copy(graph, {})
    copy.output(output)
    return copy


def device_of(example_inputs: Sequence[Any]) -> str:
    """The kind of device that kernels are for: the one of all tensors."""
    kinds = {x.device.type for x in example_inputs if isinstance(x, torch.Tensor)} - {"meta"}
    if len(kinds) > 1:
        raise NotLowerable(f"tensors on {' and '.join(sorted(kinds))}")
    return kinds.pop() if kinds else "cpu"


class _Reader:
    """What is known while reading a graph, node by node."""

    def __init__(self, as_they_are: Mapping[str, str], device: str, editable: bool) -> None:
        self.as_they_are, self.device, self.editable = as_they_are, device, editable
        self.fresh: dict[int, Node] = {}  # ids of tensors made here that nothing else looks at, and their nodes
        self.copied: set[Node] = set()
        self.parts: dict[Node, int] = {}  # parts of tensors, which still share their memory, and their items
        self.items: list[Item] = []
        self.bound: dict[Node, Any] = {}  # nested values, numbers, or UNKNOWN
        self.metas: dict[Node, Any] = {}  # the same with meta tensors
        self.values: dict[int, Value] = {}  # id of a meta tensor -> its value
        self.strides: dict[int, tuple[int, ...]] = {}
        self.origins: dict[int, Origin] = {}
        self.ways: dict[int, str] = {}
        self.pins: dict[int, dict[int, int | str]] = {}
        self.early: dict[Node, None] = {}  # numbers that depend on nothing but the inputs
        self.kept: list[Any] = []  # so that no id is used twice

    def program(self, inputs: list[Node], tensors: list[Node], output: Any) -> Program:
        items, bound = tuple(self.items), self.bound
        return Program(
            inputs=tuple(inputs),
            tensors=tuple(tensors),
            items=items,
            output=output,
            bound=bound,
            strides=self.strides,
            origins=self.origins,
            ways=self.ways,
            pins=self.pins,
            rewritten=frozenset(self.copied),
            early=tuple(node for node in self.early if node.op != "placeholder"),
        )

    def placeholder(self, node: Node, example: Any) -> None:
        if not isinstance(example, torch.Tensor):
            self.bound[node] = self.metas[node] = example
            self.early[node] = None
            return
        plain = type(example) in (torch.Tensor, torch.nn.Parameter) and example.layout == torch.strided
        if not plain or example.device.type == "meta" or example.dtype not in SUPPORTED:
            self.bound[node] = self.metas[node] = UNKNOWN
            return
        self._bind_buffers(node, meta_like(example))

    def call(self, node: Node) -> None:
        if node.op not in ("call_function", "call_method"):
            raise NotLowerable(f"a {node.op} node")
        if changes_autograd(node):
            raise NotLowerable(f"{node.target} changes what autograd does")
        if node.target is torch._C._set_grad_enabled:
            self._extern(node, None, True, "switches the grad mode")
            return
        if "array" in node.meta:
            self._extern(node, UNKNOWN, True, "a function of NumPy")
            self._share(node)
            return
        if any(self.metas[source] is UNKNOWN for source in node.all_input_nodes):
            self._extern(node, UNKNOWN, True, "an operand of unknown kind")
            return
        if not self._may_run(node):
            self._extern(node, UNKNOWN, True, "nothing is known of this function")
            self._share(node)
            return
        args, kwargs = tree_map(self._meta, node.args), tree_map(self._meta, node.kwargs)
        if node.target in WHOLE:
            with contextlib.suppress(NoRule, TypeError, Unsupported):
                result = WHOLE[node.target](*args, **kwargs)
                self._extern(node, result, False, "eager's own kernel is the best", True)
                self.fresh[id(result)] = node
                return
        function = operator.methodcaller(str(node.target), *args[1:], **kwargs) if node.op == "call_method" else None
        seen = record(function, args[:1], {}) if function else record(node.target, args, kwargs)  # type: ignore[arg-type]
        self.kept.append((args, seen))
        if seen.error:
            self._extern(node, UNKNOWN, True, seen.error)
            self._share(node)
            return
        made = {id(leaf) for call in seen.calls for leaf in leaves(call.result)} - set(self.values)
        writes, through_views = _writes(seen)
        written = writes - made
        if written and (through_views or not self._only_here(written, seen)):
            self._extern(node, seen.result, True, "writes to a tensor that others may see")
            self._share(node)
            return
        if through_views:
            random = any(is_random(call.op, call.args) for call in seen.calls)
            self._extern(node, seen.result, False, "writes to a part of what it makes", again=not random)
            self._note(node, seen)
            return
        try:
            result = self._lower(node, seen)
        except Unsupported as why:
            random = any(is_random(call.op, call.args) for call in seen.calls)
            self._extern(node, seen.result, bool(written), str(why), again=not random and not written)
            self._note(node, seen)
            return
        # A part of several results is that result, not another view of it.
        viewed = any(source in self.parts for source in node.all_input_nodes)
        own = not seen.calls and all(isinstance(v, Value) and v.op not in VIEWS | LEAVES for v in leaves(result))
        part = own and not viewed
        alias = not written and not part and all(call.op in VIEW_OPS for call in seen.calls)
        if alias and any(isinstance(v, Value) and v.op not in VIEWS | LEAVES for v in leaves(result)):
            self.parts[node] = len(self.items)
        self.items.append(Compute(node, result, alias))
        self.bound[node], self.metas[node] = result, seen.result
        if written:
            self._instead(node, written.pop())
        else:
            self._note(node, seen)

    def _only_here(self, written: set[int], seen: Record) -> bool:
        """Is the one tensor that is written to one that this graph made and nothing else looks at? Then the write may
        become a new value, and no read has to wait for it.
        """
        return self.editable and len(written) == 1 and written <= self.fresh.keys() and id(seen.result) in written

    def _instead(self, node: Node, written: int) -> None:
        """From here on, the new value stands for the tensor that was written to."""
        before = self.fresh[written]
        later, passed = set[Node](), False
        for other in node.graph.nodes:
            if passed:
                later.add(other)
            passed = passed or other is node
        before.replace_all_uses_with(node, delete_user_cb=lambda user: user in later)
        self.fresh[written] = node
        self.copied.add(node)

    def _note(self, node: Node, seen: Record) -> None:
        """Which tensors are new and seen by nobody else, after this call."""
        made = {id(leaf) for call in seen.calls for leaf in leaves(call.result)}
        views = any(ret.alias_info is not None for call in seen.calls for ret in call.op._schema.returns)
        # Its schema does not say that it is a view.
        views = views or any(call.op is UNSAFE_VIEW and id(call.args[0]) not in made for call in seen.calls)
        if views or any(id(leaf) not in made for leaf in leaves(seen.result)):
            self._share(node)
        elif isinstance(seen.result, torch.Tensor) and any(seen.result is call.result for call in seen.calls):
            self.fresh[id(seen.result)] = node

    def _share(self, node: Node) -> None:
        for source in node.all_input_nodes:
            for leaf in leaves(self.metas[source]):
                self.fresh.pop(id(leaf), None)

    def _may_run(self, node: Node) -> bool:
        """May this call be tried out? It must not touch the user's world: tensors are meta, so tensor code may."""
        if any(
            isinstance(leaf, torch.Tensor) for source in node.all_input_nodes for leaf in leaves(self.metas[source])
        ):
            return True
        return may_run_without_tensors(node)

    def _meta(self, leaf: Any) -> Any:
        return self.metas[leaf] if isinstance(leaf, Node) else leaf

    def _parts_as_views(self) -> None:
        """From here on, somebody may have written to the memory that these parts are of."""
        for node, at in self.parts.items():
            self._bind_buffers(node, self.metas[node])
            self.items[at] = Extern(node, self.bound[node], False, True, "a view, and later something is written")
        self.parts.clear()

    def _extern(self, node: Node, result: Any, barrier: bool, why: str, again: bool = False) -> None:
        if barrier:
            self._parts_as_views()
            SINCE.set(Value("const", (), (), torch.int64, 0).serial)
        if any(isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided for leaf in leaves(result)):
            result = UNKNOWN
        else:  # a constant, that recording made
            result = tree_map(_as_meta, result)
        known = node.meta.get("val")
        if result is UNKNOWN and isinstance(known, torch.Tensor) and known.layout is torch.strided:
            result = meta_like(known)
        if result is UNKNOWN:
            self.bound[node] = self.metas[node] = UNKNOWN
        else:
            self._bind_buffers(node, result)
            if type(result) in (int, float) and not barrier and all(map(self._is_early, node.all_input_nodes)):
                self.early[node] = None
        self.items.append(Extern(node, self.bound[node], barrier, again, why))

    def _is_early(self, source: Node) -> bool:
        return source in self.early or source.op == "placeholder"

    def _bind_buffers(self, node: Node, result: Any) -> None:
        """Each tensor of a result is a tensor in memory now, whatever it was before."""

        def bind(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            shape, strides = tuple(leaf.shape), leaf.stride()
            buffer = Buffer(node.name, shape, strides, leaf.dtype)
            value = Value("buffer", (), shape, leaf.dtype, buffer)
            self.values[id(leaf)] = value
            self.kept.append(leaf)
            return value

        self.metas[node], self.bound[node] = result, tree_map(bind, result)

    def _lower(self, node: Node, seen: Record) -> Any:
        """The result of a node as values, all of its calls lowered."""
        if node.name in self.as_they_are:
            raise Unsupported(self.as_they_are[node.name])
        extents = extents_of(node, seen.result)
        scalars = [] if extents else self._scalars(node)
        if scalars and (len(seen.calls) != 1 or not _same_numbers(scalars, seen.calls[0])):
            raise Unsupported("a number of the graph decides more than an element's value")
        if seen.warned:
            raise Unsupported("it warns")
        values = dict(self.values)
        needed, wanted = _needed(seen)
        # Sizes that the user wrote down hold for every call; all others follow from the inputs.
        written = {leaf for leaf in leaves((node.args, dict(node.kwargs))) if type(leaf) is int and leaf > 1}
        plain = len(seen.calls) == 1 and not is_slow(seen.calls[0])
        origin = replace(_origin(node), plain=plain)
        said = node.target in SAID or all(call.op in SIZELESS for call in seen.calls)
        for position, call in enumerate(seen.calls):
            if position not in needed:
                continue
            args, kwargs = tree_map(lambda leaf: _value(values, leaf), (call.args, dict(call.kwargs)))
            if scalars:
                (name, number), *_rest = scalars
                args = tuple(_scalar(name, number) if _is(arg, number) else arg for arg in args)
            result = lower(call.op, args, kwargs, call.result, self.device)
            for leaf, value in zip(leaves(call.result), leaves(result), strict=True):
                if isinstance(leaf, torch.Tensor) and id(leaf) in wanted:
                    if leaf.dtype not in SUPPORTED:
                        raise Unsupported(f"{call.op} to {leaf.dtype}")
                    if tuple(leaf.shape) != value.shape or leaf.dtype != value.dtype:
                        raise Unsupported(f"{call.op}: lowered to {value.dtype}{value.shape}")
                    self._name(value, origin, _way(call), written, said)
                    values[id(leaf)] = value
                    self.strides.setdefault(value.serial, leaf.stride())
        if any(not isinstance(leaf, torch.Tensor) for leaf in leaves(seen.result)):
            raise Unsupported("not only tensors")
        result = tree_map(lambda leaf: _value(values, leaf), seen.result)
        if extents:
            result = self._measured(result, extents, origin)
            values[id(seen.result)] = result
            self.strides.setdefault(result.serial, seen.result.stride())
        if node.target is operator.getitem:
            result = self._held_whole(node, seen, result)
            values[id(seen.result)] = result
        self.values = values
        return result

    def _held_whole(self, node: Node, seen: Record, result: Any) -> Any:
        """PyTorch makes no call for a slice that takes all there is: then there must not be more, another time."""
        indices = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        slices = [i for i, index in enumerate(indices) if isinstance(index, slice) and index.stop is not None]
        if sum(call.op is torch.ops.aten.slice.Tensor for call in seen.calls) >= len(slices):
            return result
        if not all(isinstance(index, slice) for index in indices) or not isinstance(result, Value):
            raise Unsupported("a slice that takes all there is")
        held = Value("reshape", (result,), result.shape, result.dtype, "free")
        self.pins[held.serial] = {d: result.shape[d] for d in slices}
        self.origins[held.serial] = _origin(node)
        return held

    def _measured(self, value: Value, extents: Mapping[int, int | Node], origin: Origin) -> Value:
        """A view or a filled tensor whose sizes are compared with the graph's numbers in each call."""
        own = value.op in ("reshape", "expand", "full") and self.origins.get(value.serial) is origin
        made = value if own else Value("reshape", (value,), value.shape, value.dtype)
        self.origins[made.serial] = origin
        self.pins[made.serial] = {d: n.name if isinstance(n, Node) else n for d, n in extents.items()}
        for number in extents.values():
            if isinstance(number, Node) and number not in self.early:
                raise Unsupported("a size that is computed from what the graph computes")
            if isinstance(number, Node) and self.metas[number] < 2:
                raise Unsupported("a size of one or zero that may differ")
        return made

    def _name(self, value: Value, origin: Origin, way: str, written: set[int], said: bool) -> None:
        """Put the user's operation down for a value and for what a rule made below it."""
        stack = [value]
        while stack:
            top = stack.pop()
            if top.op != "buffer" and top.serial not in self.origins:
                self.origins[top.serial] = origin
                if top.arg == "vec" and way != "vec":
                    self.ways[top.serial] = way
                if top.op == "index" and top.arg is not None:
                    self.pins[top.serial] = {0: top.shape[0]}
                if top.op == "lookup" and not said:
                    self.pins[top.serial] = {}
                if top.op in ("reshape", "expand", "full"):
                    self.pins[top.serial] = {d: size for d, size in enumerate(top.shape) if size in written}
                stack.extend(top.srcs)

    def _scalars(self, node: Node) -> list[tuple[str, Any]]:
        """The graph's numbers among a node's direct arguments."""
        if any(leaf for leaf in leaves(node.kwargs) if isinstance(leaf, Node) and not self._is_tensor(leaf)):
            raise Unsupported("a number of the graph as a keyword")
        direct = [arg for arg in node.args if isinstance(arg, Node)]
        nested = [
            leaf for arg in node.args if not isinstance(arg, Node) for leaf in leaves(arg) if isinstance(leaf, Node)
        ]
        if any(not self._is_tensor(leaf) for leaf in nested):
            raise Unsupported("a number of the graph as a size")
        numbers = [arg for arg in direct if not self._is_tensor(arg)]
        if any(number not in self.early for number in numbers):
            raise Unsupported("a number that is computed from what the graph computes")
        return [(number.name, self.metas[number]) for number in numbers]

    def _is_tensor(self, node: Node) -> bool:
        return all(isinstance(leaf, torch.Tensor) for leaf in leaves(self.metas[node]))


def may_run_without_tensors(node: Node) -> bool:
    """Is it known what a call does that takes no tensor?"""
    if node.op == "call_method":
        return False
    target: Any = node.target
    module = getattr(target, "__module__", None)
    if module in ("_operator", "math"):
        return True
    return (name := getattr(target, "__name__", "")) in FACTORIES and getattr(torch, name, None) is target


def _as_meta(leaf: Any) -> Any:
    real = isinstance(leaf, torch.Tensor) and leaf.device.type != "meta"
    return meta_like(leaf) if real else leaf


def _value(values: dict[int, Value], leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if id(leaf) not in values:
        raise Unsupported("a tensor from elsewhere")
    return values[id(leaf)]


def _way(call: Call) -> str:
    """How an elementwise kernel of eager calls a mathematical function (`FUNCTION_WAYS`)."""
    result = next(leaf for leaf in leaves(call.result) if isinstance(leaf, torch.Tensor))
    operands = [leaf for leaf in leaves(call.args) if isinstance(leaf, torch.Tensor)]
    if any(1 not in operand.stride() for operand in operands if operand.numel() > 1):
        return "std"  # no dimension without gaps: nothing to load a vector from
    return "vech" if result.dtype in HALVES else "vec"


def _needed(seen: Record) -> tuple[set[int], set[int]]:
    """Which calls the result depends on, and the ids of the tensors."""
    wanted = {id(leaf) for leaf in leaves(seen.result)}
    needed = set()
    for position in reversed(range(len(seen.calls))):
        call = seen.calls[position]
        if any(id(leaf) in wanted for leaf in leaves(call.result) if isinstance(leaf, torch.Tensor)):
            needed.add(position)
            wanted |= {id(leaf) for leaf in leaves((call.args, dict(call.kwargs))) if isinstance(leaf, torch.Tensor)}
    return needed, wanted


def _writes(seen: Record) -> tuple[set[int], bool]:
    """Ids of the tensors whose memory is written to, and whether that is through a view, or under one.

    Such a write does not give the tensor that it changes a new value where the calls are put in order.
    """
    base_of: dict[int, int] = {}
    viewed, written = set[int](), set[int]()
    through_views = False
    for call in seen.calls:
        mutated = _mutated(call)
        through_views = through_views or any(i in base_of or i in viewed for i in mutated)
        written |= {base_of.get(i, i) for i in mutated}
        returns = call.op._schema.returns
        if not mutated and (call.op is UNSAFE_VIEW or any(ret.alias_info is not None for ret in returns)):
            base = base_of.get(id(call.args[0]), id(call.args[0]))
            viewed.add(base)
            base_of |= {id(leaf): base for leaf in leaves(call.result) if id(leaf) != base}
    return written, through_views


def _mutated(call: Call) -> set[int]:
    """Ids of the tensors a call writes to."""
    if call.op in HIDDEN_WRITES:
        return {id(leaf) for leaf in call.args[3:5] if isinstance(leaf, torch.Tensor) and call.args[5]}
    if not call.op._schema.is_mutable:
        return set()
    ids: set[int] = set()
    for position, argument in enumerate(call.op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = call.args[position] if position < len(call.args) else call.kwargs.get(argument.name)
            ids |= {id(leaf) for leaf in leaves(given) if isinstance(leaf, torch.Tensor)}
    return ids


def _is(arg: Any, number: Any) -> bool:
    return type(arg) is type(number) and (arg == number or arg != arg)


def _same_numbers(scalars: list[tuple[str, Any]], call: Call) -> bool:
    """Is the one number of the graph the one number of the call, so that it can be told which it is?"""
    numbers = [arg for arg in (*call.args, *call.kwargs.values()) if not isinstance(arg, torch.Tensor)]
    if len(scalars) != 1 or len(numbers) != 1 or not isinstance(scalars[0][1], (int, float)):
        return False
    return not isinstance(numbers[0], bool) and _is(numbers[0], scalars[0][1])


def _scalar(name: str, number: int | float) -> Value:
    return Value("scalar", (), (), torch.int64 if isinstance(number, int) else torch.float64, name)


def _origin(node: Node) -> Origin:
    target: Any = node.target
    text = str(target) if isinstance(target, str) else getattr(target, "__name__", str(target))
    return Origin(node.name, text, node.meta.get("position"))
