"""Launching a C kernel: read sizes, check what the kernel was made for, allocate results, call.

This is the readable form, in Python. `launch.c` does the same in a tenth of the time; both take a `Binary`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import torch

from dynajit.codegen.kernel import Held, Kernel, Operand

PLAIN = (torch.Tensor, torch.nn.Parameter)
Launch = Callable[..., Any]  # tensors and numbers in; a tensor, a tuple of them, or None if the kernel does not fit


@dataclass(frozen=True, eq=False)
class Binary:
    """A kernel and where its machine code is. keeps: which results may go to memory of earlier ones; none said: all."""

    kernel: Kernel
    address: int
    keeps: tuple[bool, ...] = ()


def python_launch(binary: Binary) -> Launch:
    """A function that launches the kernel, or returns None if these arguments are not what it was made for."""
    kernel = binary.kernel
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(binary.address)
    tensors = len(kernel.inputs)

    def launch(*args: Any) -> Any:
        given = args[:tensors]
        for operand, tensor in zip(kernel.inputs, given, strict=True):
            if not fits(operand, tensor, "cpu"):
                return None
        count = tensors + len(kernel.scalars)
        sizes = axis_sizes(kernel, given, args[count:])
        if sizes is None:
            return None
        steps = []
        for operand, tensor in zip(kernel.inputs, given, strict=True):
            found = loop_steps(kernel, operand, tensor.stride(), sizes)
            if found is None:
                return None
            steps += found
        numbers = number_array(kernel, args[tensors:count])
        if numbers is None:
            return None
        outputs = []
        for operand in kernel.outputs:
            shape = [prod(sizes[axis] for axis in dim) for dim in operand.dims]
            strides = output_strides(operand, shape)
            outputs.append(torch.empty_strided(shape, strides, dtype=operand.dtype))
            found = loop_steps(kernel, operand, strides, sizes)
            assert found is not None
            steps += found
        extents = [prod(sizes[axis] for axis in loop.axes) for loop in kernel.loops]
        pointers = (ctypes.c_void_p * (tensors + len(outputs)))(*(t.data_ptr() for t in (*given, *outputs)))
        tables = lookup_numbers(kernel, given)
        numbers_in = (ctypes.c_long * (kernel.flag + 1 + len(tables)))(*extents, *steps, 0, *tables)
        function(ctypes.addressof(pointers), ctypes.addressof(numbers_in), ctypes.addressof(numbers))
        if numbers_in[kernel.flag]:
            return None  # a check failed: eager says what is wrong
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return launch


def is_plain(tensor: Any) -> bool:
    """Is it a tensor that is what its memory says: no subclass, no lazy negation, not within vmap?"""
    return type(tensor) in PLAIN and not torch._C._dispatch_keys(tensor).raw_repr() & ~plain_keys(tensor.device.type)


@functools.cache
def plain_keys(device: str) -> int:
    """The dispatch keys that a plain tensor of a kind of device may have."""
    return torch._C._dispatch_keys(torch.empty(1, device=device)).raw_repr()


def fits(operand: Operand, tensor: Any, device: str) -> bool:
    """Is this the kind of tensor, laid out the way, that the kernel was made for?"""
    if not is_plain(tensor) or tensor.dtype != operand.dtype or tensor.dim() != len(operand.dims):
        return False
    if tensor.device.type != device:
        return False
    shape, strides = tensor.shape, tensor.stride()
    order = operand.layout
    if any(strides[d] != 1 for d in operand.units):
        return False
    if operand.dense:
        step = 1
        for d in reversed(order):
            if strides[d] != step:
                return False
            step *= shape[d]
        return True
    for outer, inner in pairwise(order):
        was = operand.strides[outer] - operand.strides[inner]
        now = strides[outer] - strides[inner]
        if (was > 0) != (now > 0) or (was == 0) != (now == 0):
            return False
    return all((a == 0) == (b == 0) for a, b in zip(strides, operand.strides, strict=True))


def axis_sizes(kernel: Kernel, tensors: tuple[Any, ...], extents: tuple[Any, ...]) -> list[int] | None:
    """The size of each axis, or None if some tensor's shape is not the product of axes it should be."""
    sizes = [0] * len(kernel.sizes)
    if any(type(extent) is not int for extent in extents):
        return None
    for wanted_divide in (False, True):
        for axis, size in enumerate(kernel.sizes):
            if bool(size.divide) != wanted_divide:
                continue
            if size.extent >= 0:
                sizes[axis] = extents[size.extent]
            elif size.operand >= 0:
                sizes[axis] = tensors[size.operand].shape[size.dim]
            elif size.operand == -2:
                sizes[axis] = linear(kernel.held[size.dim], tensors)
            else:
                sizes[axis] = size.hint
            for other in size.divide:
                sizes[axis] //= max(sizes[other], 1)
            if sizes[axis] < 2:  # one and zero have meanings of their own: broadcasting, empty reductions
                return None
    for operand, tensor in zip(kernel.inputs, tensors, strict=True):
        for d, (dim, size) in enumerate(zip(operand.dims, tensor.shape, strict=True)):
            if d not in operand.picked and prod(sizes[axis] for axis in dim) != size:
                return None
    if any(prod(sizes[axis] for axis in axes) != number for axes, number in kernel.pins):
        return None
    if any(prod(sizes[axis] for axis in axes) != extents[k] for axes, k in kernel.measures):
        return None
    if not all(holds(relation, sizes, tensors) for relation in kernel.held):
        return None
    return sizes


def linear(relation: Held, tensors: tuple[Any, ...]) -> int:
    """The one side of a relation: what it says of the inputs' sizes."""
    return relation.plus + sum(times * int(tensors[k].shape[d]) for k, d, times in relation.terms)


def holds(relation: Held, sizes: list[int], tensors: tuple[Any, ...]) -> bool:
    product = prod(sizes[axis] for axis in relation.axes) * relation.factor
    known = linear(relation, tensors)
    return product == known if relation.exact else product <= known


def lookup_numbers(kernel: Kernel, tensors: tuple[Any, ...]) -> list[int]:
    """Stride and size of each dimension that is looked up."""
    return [
        number
        for operand, tensor in zip(kernel.inputs, tensors, strict=True)
        for d in operand.picked
        for number in (tensor.stride(d), tensor.shape[d])
    ]


def loop_steps(kernel: Kernel, operand: Operand, strides: Any, sizes: list[int]) -> list[int] | None:
    """How far each loop goes in a tensor, or None if it does not walk it as it should."""
    of_axis: dict[int, int] = {}
    for dim, stride in zip(operand.dims, strides, strict=True):
        for axis in reversed(dim):
            of_axis[axis] = stride
            stride *= sizes[axis]
    steps = []
    for loop, expected in zip(kernel.loops, operand.steps, strict=True):
        step = of_axis.get(loop.axes[-1], 0) if loop.axes else 0
        if expected == 1 and step != 1:
            return None
        for outer, inner in pairwise(loop.axes):
            if of_axis.get(outer, 0) != of_axis.get(inner, 0) * sizes[inner]:
                return None
        steps.append(step)
    return steps


def output_strides(operand: Operand, shape: list[int]) -> list[int]:
    """Dense strides in the operand's order of dimensions."""
    strides, step = [0] * len(shape), 1
    for d in reversed(operand.layout):
        strides[d] = step
        step *= shape[d]
    return strides


class _Number(ctypes.Union):
    _fields_ = (("f", ctypes.c_double), ("i", ctypes.c_long))


def number_array(kernel: Kernel, numbers: tuple[Any, ...]) -> Any:
    """The graph's numbers as the kernel reads them, or None if one has another type than it was made for."""
    array = (_Number * max(len(numbers), 1))()
    for k, ((_, dtype), number) in enumerate(zip(kernel.scalars, numbers, strict=True)):
        if dtype == torch.int64:
            if type(number) is not int or not -(2**63) <= number < 2**63:
                return None
            array[k].i = number
        elif type(number) is not float:
            return None
        else:
            array[k].f = number
    return array
