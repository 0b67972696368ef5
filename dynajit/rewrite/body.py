"""The replacement: call the graph, repeat side effects, then return, or run one instruction and hand over."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any

import torch

from dynajit.bytecode import Code, Instr, Label, Position, Region, encode, python, stack_effect
from dynajit.bytecode import emit as short
from dynajit.bytecode.flow import Bound, arguments, bound, places, reachable, stack_depths, successors
from dynajit.evaluate.op import OPS
from dynajit.evaluate.program import Program
from dynajit.rewrite.continuation import load_continuation
from dynajit.rewrite.reload import Reload
from dynajit.rewrite.replay import replay
from dynajit.rewrite.resume import ResumePoints, hand_over, points_of
from dynajit.source import Source
from dynajit.trace import CONTINUATION, Broke, Returned, Trace
from dynajit.values.ambient import KEY as AMBIENT
from dynajit.values.base import NULL, Value
from dynajit.values.cell import CellValue


@dataclass
class Draft:
    """A replacement that still lacks its graph.

    outputs: nodes that the graph must return, with the locals that keep them. inputs: sources of the extra parameters.
    """

    program: Program
    trace: Trace
    emit: Reload
    tail: list[Instr | Label]
    regions: list[Region]
    cells: bool

    @property
    def outputs(self) -> dict[Any, str]:
        return self.emit.outputs


def draft(function: FunctionType, program: Program, trace: Trace) -> Draft:
    """Everything behind the call of the graph. Raises `NotRebuildable`."""
    end = trace.end
    code = program.code
    own_cells: dict[int, str] = {}
    if isinstance(end, Broke):
        own_cells = {
            v.key: name for name, v in end.locals.items() if isinstance(v, CellValue) and name in code.cellvars
        }
    cell_names = frozenset(code.cellvars) if isinstance(end, Broke) else frozenset()
    emit = Reload(trace.heap, function.__globals__, own_cells, cell_names)
    emit.placeholders = dict(zip(trace.placeholders, trace.inputs, strict=True))
    for context in trace.heap[AMBIENT].open:
        context.reenter(emit)
    for mode in trace.heap[AMBIENT].modes:
        emit.call(torch._C._push_on_torch_function_stack, mode)
        emit.instruction("POP_TOP")
    replay(trace, emit)
    if isinstance(end, Returned):
        emit.load(end.value)
        emit.finish()
        _restore_grad_mode(trace, emit)
        emit.instruction("RETURN_VALUE")
        return Draft(program, trace, emit, list(emit.out), [], cells=False)
    _restore_frame(program, trace, end, emit)
    _restore_grad_mode(trace, emit)
    tail, regions = (_again if end.again else _native)(program, end)
    return Draft(program, trace, emit, [*emit.out, *tail], regions, cells=True)


def _restore_grad_mode(trace: Trace, emit: Reload) -> None:
    before, now = trace.grad_mode
    if before != now:
        emit.out += [*short.push_callable(short.const(torch._C._set_grad_enabled)), *short.const(now), *short.call(1)]
        emit.instruction("POP_TOP")


def _restore_frame(program: Program, trace: Trace, end: Broke, emit: Reload) -> None:
    """Stack, locals and cells as they were before the instruction. Everything is read before anything is stored."""
    code = program.code
    root, at = program.root(end.at)
    names = frozenset(name for name, value in end.locals.items() if not isinstance(value, CellValue))
    wanted, _ = points_of(root).wanted(at, Bound(names, names))
    kept = [name for name in wanted if name in end.locals]
    for value in end.stack:
        if value is CONTINUATION:
            load_continuation(emit, end.chain)
        else:
            emit.load(value)
    stores: list[Instr] = []
    for name in kept:
        emit.load(end.locals[name])
        stores.append(Instr("STORE_FAST", name))
    for name in code.cellvars:
        cell = end.locals.get(name)
        contents: Value | None = trace.heap[cell.key] if isinstance(cell, CellValue) else None
        if contents is not None:
            emit.load(contents)
            stores.append(Instr("STORE_DEREF", name))
    emit.finish()
    if points_of(root).sees_locals:
        for source in trace.inputs:
            emit.load_source(source)
            emit.instruction("POP_TOP")
        emit.out += [Instr("DELETE_FAST", name) for name in emit.temporaries()]
    emit.out += reversed(stores)
    for name in arguments(code):
        if name in code.cellvars:
            cell = end.locals.get(name)
            if isinstance(cell, CellValue) and trace.heap[cell.key] is None:
                emit.instruction("DELETE_DEREF", name)
        elif name not in names:
            emit.instruction("DELETE_FAST", name)


def _native(program: Program, end: Broke) -> tuple[list[Instr | Label], list[Region]]:
    """The broken instruction under its own regions, its handlers, and a hand-over wherever control leaves them."""
    root, _ = program.root(end.at)
    points = points_of(root)
    body, code = program.body, program.code
    nulls = tuple(value is NULL for value in end.stack)
    names = frozenset(name for name, value in end.locals.items() if not isinstance(value, CellValue))
    instr = body[end.at]
    assert isinstance(instr, Instr)
    after = _effect(instr, nulls, jump=False)
    here, behind = Label(), Label()
    native, stubs = _native_instruction(instr, behind)
    items: list[Instr | Label] = []
    exits = _handler_exits(program, end.at)
    exit_labels = {index: Label() for index in exits}
    for index, item in enumerate(body):
        if index in exit_labels:
            items.append(Instr("JUMP", target=exit_labels[index]))
        items += [here, *native] if index == end.at else [item]
    items = [Instr("JUMP", target=here), *items]
    entry = Bound(names, names).after(instr) if instr.op != "LOAD_FAST" else Bound(names, names)
    regions = list(code.regions)
    depths = stack_depths(code)
    for label, jump in stubs:
        target = end.at + 1 if not jump else program.labels[_target(instr)]
        slots = after if not jump else _effect(instr, nulls, jump=True)
        _stub(points, program, label, target, slots, entry, items, regions)
    region = program.regions[end.at]
    kept = nulls[: region.depth] if region is not None else ()  # what the handler found below its exception
    if exits:
        ends = [item for label in exit_labels.values() for item in (label, Instr("JUMP", target=label))]
        probe = replace(code, body=[*items, *ends], regions=regions)
        start = places(probe)[here]
        facts = bound(probe, Bound(names, names), start)
        where = {item.target: i for i, item in enumerate(items) if isinstance(item, Instr) and item.op == "JUMP"}
        for index, label in exit_labels.items():
            slots = tuple(kept[i] if i < len(kept) else False for i in range(depths[index]))
            known = facts.get(where[label])
            if known is not None:
                _stub(points, program, label, index, slots, known, items, regions)
    return _prune(replace(code, body=items, regions=regions))


def _again(program: Program, end: Broke) -> tuple[list[Instr | Label], list[Region]]:
    """Hand over at the broken instruction itself."""
    root, at = program.root(end.at)
    names = frozenset(name for name, value in end.locals.items() if not isinstance(value, CellValue))
    return hand_over(points_of(root), at, tuple(value is NULL for value in end.stack), Bound(names, names))


def _stub(
    points: ResumePoints, program: Program, label: Label, index: int, slots: tuple[bool, ...], names: Bound,
    items: list[Instr | Label], regions: list[Region],
) -> None:  # fmt: skip
    _, at = program.root(index)
    out, more = hand_over(points, at, slots, names)
    items += [label, *out]
    regions += more


def _target(instr: Instr) -> Label:
    assert instr.target is not None
    return instr.target


def _native_instruction(instr: Instr, behind: Label) -> tuple[list[Instr | Label], list[tuple[Label, bool]]]:
    """The instruction and jumps to the hand-overs: (label, whether it is where the instruction jumps to)."""
    stubs: list[tuple[Label, bool]] = []
    out: list[Instr | Label] = []
    if instr.op == "LOAD_METHOD":  # it would push a NULL or not, depending on what it finds
        plain = replace(instr, op="LOAD_ATTR")
        out += [Instr("PUSH_NULL"), Instr("SWAP", 2), plain] if python.null_first else [plain, Instr("PUSH_NULL")]
    elif instr.op == "LOAD_SUPER_ATTR" and instr.arg[1] & 1:
        plain = replace(instr, arg=(instr.arg[0], instr.arg[1] & ~1))
        out += [plain, Instr("PUSH_NULL")]
        if python.null_first:
            out.append(Instr("SWAP", 2))
    elif instr.target is not None:
        jumped = Label()
        stubs.append((jumped, True))
        out.append(replace(instr, target=jumped))
    else:
        out.append(instr)
    if instr.op not in ("RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "JUMP"):
        stubs.append((behind, False))
        out.append(Instr("JUMP", target=behind))
    return out, stubs


def _effect(instr: Instr, nulls: tuple[bool, ...], jump: bool) -> tuple[bool, ...]:
    """Which slots are empty afterwards."""
    depth = len(nulls) + stack_effect(instr, jump)
    popped = OPS[instr.op].pops(instr) if instr.op in OPS else 0
    kept = nulls[: max(0, min(len(nulls) - popped, depth))]
    pushed = [False] * (depth - len(kept))
    if instr.op in ("LOAD_METHOD",) or (instr.op == "LOAD_SUPER_ATTR" and instr.arg[1] & 1):
        pushed = [True, False] if python.null_first else [False, True]
    return (*kept, *pushed)


_STAY = ("PUSH_EXC_INFO", "RERAISE")  # a handler begins, or ends by leaving the frame


def _handler_exits(program: Program, at: int) -> list[int]:
    """Where control arrives when an exception of instruction `at` was handled."""
    follow, labels = successors(program.code), program.labels
    region = program.regions[at]
    if region is None:
        return []
    todo, seen, exits = [labels[region.handler]], set(), []
    while todo:
        index = todo.pop()
        if index in seen:
            continue
        seen.add(index)
        item = program.body[index]
        if isinstance(item, Instr) and program.handling.get(index, 0) == 0 and item.op not in _STAY:
            exits.append(index)
            continue
        todo += follow[index]
        inner = program.regions[index]
        if inner is not None and isinstance(item, Instr):
            todo.append(labels[inner.handler])
    return exits


def _prune(code: Code) -> tuple[list[Instr | Label], list[Region]]:
    """Leave out what cannot be reached from the start."""
    reached = reachable(code, (0,))
    at = places(code)
    regions = [region for region in code.regions if at[region.handler] in reached]
    body = [item for i, item in enumerate(code.body) if isinstance(item, Label) or i in reached]
    return body, regions


def assemble(made: Draft, graph_call: Any, position: Position) -> tuple[CodeType, tuple[Source, ...]]:
    """The code object, and the sources of the values that it takes behind the frame's own arguments."""
    code, emit = made.program.code, made.emit
    head: list[Instr | Label] = []
    if code.freevars:
        head.append(Instr("COPY_FREE_VARS", len(code.freevars)))
    if made.cells:
        head += [Instr("MAKE_CELL", name) for name in code.cellvars]
    head.append(Instr("RESUME", 0))
    if graph_call is not None:
        head += short.positioned(_graph_call(made, graph_call), position)
    params = [*arguments(code), *emit.inputs.values()]
    others = [name for name in code.varnames if name not in params]
    body = [*head, *made.tail]
    kept = {*params, *others, *code.cellvars, *code.freevars}
    temporary = dict.fromkeys(
        item.arg for item in body if isinstance(item, Instr) and item.op.endswith("_FAST") and item.arg not in kept
    )
    final = replace(
        code, body=body, regions=made.regions, flags=code.flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        argcount=len(params), posonlyargcount=0, kwonlyargcount=0, varnames=[*params, *others, *temporary],
        cellvars=list(code.cellvars) if made.cells else [], consts=list(code.consts[:1]), names=[], stacksize=0,
    )  # fmt: skip
    return encode(final), tuple(emit.inputs)


def _graph_call(made: Draft, graph_call: Any) -> list[Instr]:
    before = len(made.emit.out)
    for source in graph_inputs(made.trace):
        made.emit.load_source(source)
    loads = made.emit.out[before:]
    del made.emit.out[before:]
    names = list(made.outputs.values())
    unpack = [Instr("UNPACK_SEQUENCE", len(names)), *(Instr("STORE_FAST", name) for name in names)]
    return [*short.push_callable(short.const(graph_call)), *loads, *short.call(len(graph_inputs(made.trace))), *unpack]


def graph_inputs(trace: Trace) -> Sequence[Source]:
    """Sources of the placeholders that the graph still has."""
    by_node = dict(zip(trace.placeholders, trace.inputs, strict=True))
    return [by_node[node] for node in trace.graph.nodes if node.op == "placeholder"]
