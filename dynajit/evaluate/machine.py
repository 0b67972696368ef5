"""The symbolic frame: one loop over canonical instructions, and all that values and handlers may ask of it."""

from __future__ import annotations

import builtins
import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CellType, CodeType, FunctionType
from typing import Any, NoReturn

import torch

from dynajit import reasons
from dynajit.bytecode import Instr, python
from dynajit.errors import GraphBreak, Raised, Skip
from dynajit.evaluate import (
    arrays,
    calls,
    chains,
    hooks,
    inlining,
    iteration,
    operators,
    overrides,
    polyfills,
    recording,
    sizes,
)
from dynajit.evaluate.op import OPS
from dynajit.evaluate.plan import Plan
from dynajit.evaluate.program import program_of
from dynajit.evaluate.protection import protects
from dynajit.evaluate.state import Frame, Mark
from dynajit.evaluate.unsupported import UNSUPPORTED
from dynajit.frame import MissingType
from dynajit.graph.recorder import Origin, Recorder
from dynajit.guards.guard import Guard
from dynajit.source import FreeCell, Globals, Item, Known, Local, Source
from dynajit.symbol import Root, Symbol
from dynajit.trace import Broke, Returned, Trace
from dynajit.values import ambient, subclass
from dynajit.values.base import NULL, Handle, Lazy, Value
from dynajit.values.builtin import NamespaceValue
from dynajit.values.cell import CellValue, existing_cell
from dynajit.values.constant import Constant, SymbolicNumber, fold
from dynajit.values.container_instance import ContainerInstance, builtin_call
from dynajit.values.exception import construct, raised
from dynajit.values.function import Callee
from dynajit.values.heap import Heap
from dynajit.values.tensor import TensorValue
from dynajit.values.value_instance import ValueInstance, builtin_value_call
from dynajit.values.wrap import wrap

MAX_DEPTH = 60
PATIENCE = 30_000  # instructions without a tensor operation before a frame is left to Python


class Machine:
    """Evaluates one frame and, inside it, the functions that it calls. One use: make it, `run` it, drop it."""

    def __init__(
        self,
        function: FunctionType,
        args: Sequence[Any],
        *,
        force_break: frozenset[int] = frozenset(),
        mark_of: Callable[[Any], str | None] = lambda obj: None,
        plan: Plan | None = None,
        unbacked_sizes: bool = False,
        chains: bool = True,
        says_compiling: bool = False,
    ) -> None:
        self.function = function
        self.args = args
        self.unbacked_sizes = unbacked_sizes
        self.chains = chains
        self.says_compiling = says_compiling  # what torch.compiler.is_compiling() is
        self.asked_whether_compiling = False
        self.direct = False  # whether the call at hand is one whose result the instruction returns as it is
        self.plan = plan if plan is not None else Plan()
        self.force_break = force_break
        self.mark_of = mark_of
        self.heap = Heap()
        self.heap.new(ambient.KEY, ambient.current(), existing=False)
        self.recorder = Recorder()
        self.guards: list[Guard] = []
        self._guard_keys: set[Any] = set()
        self.frames: list[Frame] = []
        self.jump: Any = None
        self.inputs: dict[int, tuple[TensorValue, Any]] = {}
        self.object_inputs: dict[int, Any] = {}
        self.input_sources: dict[Any, tuple[Source, Any]] = {}
        self.symbolic: dict[Source, SymbolicNumber] = {}
        self.roots: dict[Source, Root] = {}
        self.size_values: dict[tuple[Any, int], SymbolicNumber] = {}
        self.fixed: set[Source] = set()
        self.array_memory: dict[int, Any] = {}  # stand-ins for memory that others have, too
        self.array_elements = 0
        self.shares_with_numpy = False
        self.handles: dict[int, tuple[Any, Value]] = {}
        self.born: dict[int, int] = {}
        self.visited: dict[tuple[str, int], int] = {}
        self.inlined: dict[int, CodeType] = {}
        self._realized: dict[int, tuple[Value, Value]] = {}
        self._keys = 0
        self._mark: Mark | None = None
        self._calm: Mark | None = None
        self._steps = 0
        self._steps_at_node = (0, 0)
        self.initial_grad_mode = torch.is_grad_enabled()

    # ---- running ------------------------------------------------------------------------------------------------
    def run(self) -> Trace:
        """Evaluate the frame to its end or to its first graph break. Raises `Skip`."""
        frame = self._root_frame()
        with self._quiet():
            try:
                end: Returned | Broke = Returned(self.run_frame(frame))
            except GraphBreak as error:
                end = self._break(frame, error)
            except RecursionError:
                end = self._break(frame, GraphBreak(reasons.TOO_DEEP, frame.callee.qualname))
            except Raised as error:
                name = error.value.describe()
                end = self._break(frame, GraphBreak(reasons.UNCAUGHT, name))
            ambient.close(self)
        self._guard_aliasing()
        ordered = [node for node in self.recorder.graph.nodes if node.op == "placeholder"]
        return Trace(
            code=frame.program.code,
            graph=self.recorder.graph,
            placeholders=tuple(ordered),
            inputs=tuple(self.input_sources[node][0] for node in ordered),
            examples=tuple(self.input_sources[node][1] for node in ordered),
            guards=tuple(self.guards),
            heap=self.heap,
            end=end,
            grad_mode=(self.initial_grad_mode, self._end_mode),
            visited=dict(self.visited),
            inlined=tuple(self.inlined.values()),
            handles={value.key: value for _, value in self.handles.values() if isinstance(value, Handle)},
            born=dict(self.born),
        )

    def _guard_aliasing(self) -> None:
        """What is written must not be, under another name, what was taken for another object."""
        existing = [value for _, value in self.handles.values() if isinstance(value, Handle) and value.key in self.heap]
        changed = set(self.heap.changed())
        for value in existing:
            if value.key not in changed or value.source is None:
                continue
            for other in existing:
                if other is not value and type(other) is type(value) and other.source is not None:
                    self.guard(value.source, "NOT_SAME", other.source)

    _end_mode = False

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Meta calls may warn, draw random numbers and switch the grad mode; none of it may be seen outside."""
        with warnings.catch_warnings(), ambient.random_kept():
            warnings.simplefilter("ignore")
            try:
                yield
            finally:
                self._end_mode = torch.is_grad_enabled()
                torch._C._set_grad_enabled(self.initial_grad_mode)

    def _root_frame(self) -> Frame:
        function = self.function
        program = program_of(function.__code__)
        callee = Callee(
            code=function.__code__, globals=function.__globals__, globals_source=Globals(), defaults=(),
            kwdefaults={}, closure=(), qualname=function.__qualname__,
        )  # fmt: skip
        frame = Frame(program, callee)
        frame.direct = True
        for slot, (name, obj) in enumerate(zip(function.__code__.co_varnames, self.args, strict=False)):
            frame.locals[name] = Lazy(obj, source=Local(name, slot))
        return frame

    def _break(self, frame: Frame, error: GraphBreak) -> Broke:
        mark = self._mark
        assert mark is not None
        instr = frame.program.body[mark.at]
        assert isinstance(instr, Instr)
        inside = chains.break_inside(self, mark, error) if self.chains else None
        if inside is not None:
            return inside
        if mark.handled and self._calm is None:
            raise Skip(error.reason, error.detail)  # an exception that was raised before this frame took over
        if self._calm is not None and (mark.handled or instr.op == "RERAISE"):
            # the exception exists only here: go back to before it was raised
            mark = self._calm
            instr = frame.program.body[mark.at]
            assert isinstance(instr, Instr)
        again = error.needs is not None and error.needs in self.recorder.nodes[: mark.nodes]
        self.go_back(mark.heap, mark.nodes, mark.guards, mark.grad_mode)
        local = frame.locals if mark.locals is None else mark.locals
        cells = {name: cell for name, cell in frame.cells.items() if name not in frame.program.code.freevars}
        return Broke(
            at=mark.at, stack=mark.stack, locals={**dict(local), **cells}, reason=error.reason, detail=error.detail,
            position=instr.position, where=error.where, again=again,
        )  # fmt: skip

    def go_back(self, heap: int, nodes: int, guards: int, grad_mode: bool) -> None:
        """Undo everything since these lengths."""
        self.heap.roll_back(heap)
        self.recorder.roll_back(nodes)
        for guard in self.guards[guards:]:
            self._guard_keys.discard(_guard_key(guard.source, guard.kind, guard.expected, guard.name))
        del self.guards[guards:]
        if torch.is_grad_enabled() != grad_mode:
            torch._C._set_grad_enabled(grad_mode)

    def run_frame(self, frame: Frame) -> Value:
        """The value that the frame returns, or (with `frame.yielded`) yields."""
        if len(self.frames) >= MAX_DEPTH:
            raise GraphBreak(reasons.TOO_DEEP, frame.callee.qualname)
        if self.frames and not frame.module:
            frame.module = self.frames[-1].module
        self.frames.append(frame)
        body, labels = frame.program.body, frame.program.labels
        root = len(self.frames) == 1 and not frame.generator
        try:
            while True:
                instr = body[frame.at]
                if not isinstance(instr, Instr):
                    frame.at += 1
                    continue
                if frame.direct:
                    frame.mark = (self.heap.mark, self.recorder.mark, len(self.guards), torch.is_grad_enabled())
                if root:
                    self._mark = self._take_mark(frame)
                    if frame.at in self.force_break:
                        raise GraphBreak(reasons.NO_OPERATION, "a value made here cannot be rebuilt later")
                frame.instr, self.jump = instr, None
                try:
                    pushed = self._step(frame, instr)
                except Raised as error:
                    if not self._handle(frame, error.value, root):
                        raise
                    continue
                if instr.op in ("RETURN_VALUE", "YIELD_VALUE"):
                    frame.yielded = instr.op == "YIELD_VALUE"
                    frame.at += 1
                    result: Value = pushed
                    return result
                frame.at = labels[self.jump] if self.jump is not None else frame.at + 1
        except GraphBreak as error:
            error.frames.append(frame)
            if error.where is None and frame.program.code.filename != polyfills.__file__:
                error.where = (frame.program.code.filename, frame.instr.position.line or 0)
            raise
        finally:
            self.frames.pop()

    def _step(self, frame: Frame, instr: Instr) -> Any:
        self._count_step()
        self.direct = False
        found = OPS.get(instr.op)
        if found is None:
            raise GraphBreak(UNSUPPORTED.get(instr.op, reasons.UNSUPPORTED_INSTRUCTION), instr.op)
        line = instr.position.line
        if line is not None and instr.op not in _PROLOGUE:
            self.visited.setdefault((frame.program.code.filename, line), len(self.frames) - 1)
        count = found.pops(instr)
        stack = frame.stack
        popped: list[Value] = stack[len(stack) - count :] if count else []
        if not found.lazy:
            popped = [self.realize(value) for value in popped]
        pushed = found.run(self, instr, *popped)
        if count:
            del stack[len(stack) - count :]
        if pushed is None or instr.op in ("RETURN_VALUE", "YIELD_VALUE"):
            return pushed
        if isinstance(pushed, tuple):
            stack.extend(pushed)
        else:
            stack.append(pushed)
        return None

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps - self._steps_at_node[0] > PATIENCE:
            nodes = len(self.recorder.nodes)
            if nodes == self._steps_at_node[1]:
                raise Skip(reasons.LONG_LOOP, self.frames[0].callee.qualname)
            self._steps_at_node = (self._steps, nodes)

    def _take_mark(self, frame: Frame) -> Mark:
        handled = len(frame.handled)
        return Mark(
            at=frame.at, stack=tuple(frame.stack), locals=None, heap=self.heap.mark, nodes=self.recorder.mark,
            guards=len(self.guards), grad_mode=torch.is_grad_enabled(), handled=handled,
        )  # fmt: skip

    def _handle(self, frame: Frame, value: Value, root: bool) -> bool:
        """Go to the handler that covers the current instruction. False if there is none."""
        region = frame.program.regions[frame.at]
        if region is None:
            return False
        if root and not frame.handled and frame.instr.op != "RERAISE":  # the same exception goes on
            mark = self._mark
            assert mark is not None
            self._calm = Mark(mark.at, mark.stack, dict(frame.locals), mark.heap, mark.nodes, mark.guards,
                              mark.grad_mode, 0)  # fmt: skip
        del frame.stack[region.depth :]
        if region.push_lasti:
            frame.stack.append(Constant(frame.at))
        frame.stack.append(value)
        frame.at = frame.program.labels[region.handler]
        return True

    def handle(self, frame: Frame, value: Value) -> bool:
        """Let an inlined frame handle an exception. False if it does not."""
        return self._handle(frame, value, root=False)

    def is_protected(self) -> bool:
        """Whether an exception raised here would meet a handler in one of the frames."""
        return any(protects(frame) for frame in self.frames if not frame.generator)

    # ---- where we are -------------------------------------------------------------------------------------------
    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def origin(self) -> Origin:
        *outer, frame = [f for f in self.frames if f.program.code.filename != polyfills.__file__] or self.frames
        code = frame.program.code
        callers = tuple((f.program.code.filename, f.program.code.qualname, f.instr.position.line) for f in outer)
        return Origin(code.filename, code.qualname, frame.instr.position, callers, frame.module)

    # ---- what values may ask: knowledge -----------------------------------------------------------------------------
    def new_key(self) -> int:
        self._keys += 1
        self.born[self._keys] = self.frames[0].at if self.frames else 0
        return self._keys

    def guard(self, source: Source, kind: str, expected: Any = None, name: str = "") -> None:
        key = _guard_key(source, kind, expected, name)
        if key in self._guard_keys:
            return
        origin = None
        if self.frames:
            root = self.frames[0]
            origin = (root.program.code.filename, root.instr.position.line)
        self._guard_keys.add(key)
        self.guards.append(Guard(source, kind, expected, name, origin))

    def wrap(self, obj: Any, source: Source) -> Value:
        return Lazy(obj, source=source)

    def realize(self, value: Value) -> Value:
        if not isinstance(value, Lazy):
            return value
        kept = self._realized.get(id(value))
        if kept is not None:
            return kept[1]
        assert value.source is not None
        made = wrap(self, value.obj, value.source)
        self._realized[id(value)] = (value, made)
        return made

    def constant(self, obj: Any) -> Value:
        return recording.constant(self, obj)

    def code_constant(self, obj: Any) -> Value:
        """A constant of a code object."""
        return Constant(obj) if isinstance(obj, (CodeType, MissingType)) else recording.constant(self, obj)

    def callable_pair(self, found: Value) -> tuple[Value, ...]:
        """What LOAD_METHOD pushes for an attribute that was looked up: it and NULL, in this Python's order."""
        return (NULL, found) if python.null_first else (found, NULL)

    def known_handle(self, obj: Any, source: Source) -> Value | None:
        found = self.handles.get(id(obj))
        if found is None:
            return None
        value = found[1]
        if isinstance(value, Handle) and value.key not in self.heap:  # made known by an instruction that was undone
            return None
        if value.source is not None and value.source != source:
            self.guard(source, "SAME", value.source)
        return value

    def holds(self, value: Value) -> bool:
        """Whether a variable of the program refers to the object now, so that it is alive."""
        source, wanted = value.source, value.identity()
        if source is not None and not isinstance(source.root, Local) and not self.heap.changed():
            return True  # it is where it was found
        for frame in self.frames:
            cells = [self.heap[cell.key] for cell in frame.cells.values() if cell.key in self.heap]
            for held in (*frame.locals.values(), *cells):
                if isinstance(held, Value) and self._realized.get(id(held), (held, held))[1].identity() == wanted:
                    return True
        return False

    def remember_handle(self, obj: Any, value: Value) -> None:
        self.handles[id(obj)] = (obj, value)

    def real_tensor(self, value: Value) -> Any:
        """The tensor behind a placeholder."""
        assert isinstance(value, TensorValue)
        return self.input_sources[value.node][1]

    def tensor_hook(self, owner: Any, hook: Value) -> Value:
        """`owner.register_hook(hook)` of a tensor made in the graph."""
        return hooks.register(self, owner, hook)

    def gradients(self) -> Mapping[Any, Value]:
        """The gradients that were set here, by the node of their tensor."""
        return ambient.state(self).gradients

    def set_gradient(self, node: Any, value: Value) -> None:
        state = ambient.state(self)
        self.heap.put(ambient.KEY, replace(state, gradients={**state.gradients, node: value}))

    def object_input(self, obj: Any, source: Source) -> Any:
        """The placeholder of an object that operations take as it is."""
        return recording.object_input(self, obj, source)

    def graph_input(self, obj: Any, source: Source) -> Value:
        return recording.graph_input(self, obj, source)

    def symbolic_number(self, obj: Any, source: Source) -> Value | None:
        return recording.symbolic_number(self, obj, source)

    def as_subclass(self, tensor: TensorValue, cls: Value) -> Value:
        return recording.as_subclass(self, tensor, cls)

    def specialise(self, value: Value) -> Value:
        return sizes.specialise(self, value)

    def size(self, tensor: TensorValue, dim: int) -> Value:
        return sizes.size(self, tensor, dim)

    def shape(self, tensor: TensorValue) -> Value:
        return sizes.shape(self, tensor)

    def element_count(self, tensor: TensorValue) -> Value:
        return sizes.element_count(self, tensor)

    def compute(self, function: Callable[..., Any], *operands: Value) -> Value:
        return sizes.compute(self, function, *operands)

    def root(self, source: Source, example: Any, *, size: bool = False) -> Symbol:
        """The symbol of a number read from `source`, and the guards that it is equal to others as the plan supposes."""
        symbol = self.plan.root(source, example, size=size)
        new = source not in self.roots
        self.roots.update((root.source, root) for root in symbol.roots)
        for relation in self.plan.equal if new else ():
            if all(root.source in self.roots for root in relation.roots):
                self.guard(relation.roots[0].source, "RELATION", relation)
        return symbol

    def all_roots(self) -> tuple[Root, ...]:
        return tuple(self.roots.values())

    def fixed_roots(self) -> frozenset[Source]:
        """The symbolic numbers whose value is guarded all the same."""
        return frozenset(self.fixed)

    def record(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value:
        return recording.record(self, op, target, args, kwargs)

    def asks_class(self, *values: Value) -> bool:
        """Whether PyTorch would ask the class of one of these how it handles a function."""
        return overrides.wanted(self, values)

    def handled_by_class(self, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
        """What the classes of the arguments make of a method of the first one; None if PyTorch answers."""
        if not overrides.wanted(self, [*args, *kwargs.values()]):
            return None
        return overrides.dispatch(self, name, args, kwargs)

    def array(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value:
        return arrays.array(self, op, target, args, kwargs)

    def array_of(self, tensor: TensorValue, kwargs: Mapping[str, Value]) -> Value:
        return arrays.from_tensor(self, tensor, kwargs)

    def array_input(self, obj: Any, source: Source) -> Value:
        return arrays.array_input(self, obj, source)

    def folded(self, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """What a function that depends on nothing else returns for known arguments."""
        return fold(self, function, args, kwargs)

    def record_effect(self, target: Any, args: Sequence[Any], *, writes: bool = False) -> Any:
        return recording.record_effect(self, target, args, writes=writes)

    @property
    def grad_mode(self) -> bool:
        return torch.is_grad_enabled()

    def set_grad_mode(self, on: bool) -> None:
        if ambient.state(self).modes:
            raise GraphBreak(reasons.USER_CONTEXT, "the grad mode in a mode of your own")
        if torch.is_grad_enabled() != on:
            self.recorder.call("call_function", torch._C._set_grad_enabled, (on,), {}, self.origin())
            torch._C._set_grad_enabled(on)

    # ---- what values may ask: actions ----
    def call(self, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return calls.call(self, fn, args, kwargs)

    def inline(self, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return inlining.inline(self, fn, args, kwargs)

    def run_generator(self, state: Any, sent: Value, error: Any = None) -> tuple[Value | None, Any, Value | None]:
        return inlining.run_generator(self, state, sent, error)

    def call_method(self, owner: Value, name: str, *args: Value) -> Value:
        return self.call(self.getattr(owner, name), args, {})

    def call_builtin_method(self, owner: Value, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if isinstance(owner, ValueInstance):
            return builtin_value_call(self, owner, name, args, kwargs)
        assert isinstance(owner, ContainerInstance)
        return builtin_call(self, owner, name, args, kwargs)

    def getattr(self, owner: Value, name: str) -> Value:
        owner = self.realize(owner)
        if name == "__class__":
            cls = owner.python_type()
            return self.wrap(cls, Known(cls))
        if isinstance(owner, TensorValue):
            own = subclass.attribute(self, owner, name)
            if own is not None:
                return own
            if overrides.wanted(self, (owner,)) and not callable(getattr(torch.Tensor, name, None)):
                handled = overrides.dispatch(self, lambda tensor: getattr(tensor, name), (owner,), {})
                if handled is not None:
                    return handled
        return owner.getattr(self, name)

    def is_true(self, value: Value) -> bool:
        return operators.truth(self, self.realize(value))

    def binary(self, symbol: str, left: Value, right: Value) -> Value:
        return operators.binary(self, symbol, self.realize(left), self.realize(right))

    def compare(self, symbol: str, left: Value, right: Value) -> Value:
        return operators.compare(self, symbol, self.realize(left), self.realize(right))

    def iterate(self, value: Value) -> Value:
        return iteration.iterate(self, self.realize(value))

    def next(self, iterator: Value) -> Value | None:
        return iteration.next_item(self, self.realize(iterator))

    def unpack(self, value: Value) -> tuple[Value, ...]:
        return iteration.unpack(self, self.realize(value))

    def exception(self, value: Value) -> Value:
        """The exception that `raise value` raises."""
        return raised(self, self.realize(value))

    def throw(self, kind: type[BaseException], *args: Any) -> NoReturn:
        """The program raises `kind(*args)`; args may be values or plain objects."""
        values = [arg if isinstance(arg, Value) else self.constant(arg) for arg in args]
        raise Raised(construct(self, kind, values, {}))

    def free_cell(self, name: str, index: int) -> CellValue:
        """The cell of a free variable of the root frame."""
        closure = self.function.__closure__ or ()
        cell: CellType = closure[index]
        return existing_cell(self, cell, name, FreeCell(name, index))

    def namespace_item(self, namespace: dict[str, Any], source: Source, name: str) -> Value | None:
        """An entry of a globals dict as the program sees it now, or None."""
        if namespace is self.function.__globals__:
            source = Globals()
        written = self.namespace_writes(namespace)
        if name in written:
            return None if written[name] is NULL else written[name]
        if name not in namespace:
            self.guard(source, "ITEM_ABSENT", None, name)
            return None
        return self.wrap(namespace[name], Item(source, name))

    def namespace_writes(self, namespace: dict[str, Any]) -> dict[str, Value]:
        """What the program wrote to a globals dict so far; NULL stands for a deleted name."""
        found = self.known_handle(namespace, Known(namespace))
        return self.heap[found.key] if isinstance(found, NamespaceValue) else {}

    def write_namespace(self, namespace: dict[str, Any], name: str, value: Value) -> None:
        found = self.known_handle(namespace, Known(namespace))
        if not isinstance(found, NamespaceValue):
            key = self.new_key()
            self.heap.new(key, {}, existing=True)
            found = NamespaceValue(key, namespace, source=Known(namespace))
            self.remember_handle(namespace, found)
        self.heap.put(found.key, {**self.heap[found.key], name: value})

    @property
    def builtins(self) -> dict[str, Any]:
        """The builtins that the root function sees (its `__builtins__`)."""
        namespace = self.function.__globals__.get("__builtins__", builtins)
        return namespace if isinstance(namespace, dict) else vars(namespace)


_PROLOGUE = frozenset({"RESUME", "MAKE_CELL", "COPY_FREE_VARS", "RETURN_GENERATOR"})
_BY_VALUE = frozenset({"EQUALS", "LENGTH", "KEYS", "SET_EQUALS", "RELATION"})


def _guard_key(source: Source, kind: str, expected: Any, name: str) -> tuple[Any, ...]:
    """Two guards with one key are the same condition."""
    return source, kind, name, (type(expected), repr(expected)) if kind in _BY_VALUE else id(expected)
