"""Every reason to break a graph or to skip a frame: one row each. Panels and docs are generated from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """code: stable name shown to users. title: one line. explanation: why. hint: what to try."""

    code: str
    title: str
    explanation: str
    hint: str


TABLE: dict[str, Reason] = {}


def _row(code: str, title: str, explanation: str, hint: str) -> Reason:
    reason = Reason(code, title, explanation, hint)
    TABLE[code] = reason
    return reason


# ---- the program does something that only Python can do -------------------------------------------------------
PRINT = _row(
    "DJ-B001",
    "a call with visible output",
    "Printing, reading and writing must happen when the program says so.",
    "move it out of the compiled function, or leave it: the code before and after it is still compiled",
)
OPAQUE_CALL = _row(
    "DJ-B002",
    "a call of a function that cannot be traced",
    "The function is written in C or belongs to a library that is run as it is, so Python calls it.",
    "call it outside the compiled function, or replace it by tensor operations",
)
UNKNOWN_OBJECT = _row(
    "DJ-B003",
    "an operation on an object that is not modelled",
    "The evaluator does not know what this kind of object does, so Python does it.",
    "do this part outside the compiled function",
)
NO_OPERATION = _row(
    "DJ-B004",
    "an operation that is not modelled for this kind of value",
    "The evaluator knows the value but not this operation on it, so Python does it.",
    "write it with plain lists, tuples, dicts, numbers or tensor operations",
)
UNSUPPORTED_INSTRUCTION = _row(
    "DJ-B005",
    "an instruction that is not modelled",
    "This Python construct is executed by Python itself.",
    "use plain functions, loops and branches here",
)
DISABLED = _row(
    "DJ-B006",
    "a function marked with dynajit.disable",
    "It asked to be run as it is.",
    "remove the mark to have it compiled",
)
REQUESTED = _row(
    "DJ-B007", "dynajit.graph_break() was called", "The program asked for a graph break here.", "remove the call"
)
ITERATOR = _row(
    "DJ-B008",
    "an iterator whose items only Python can fetch",
    "The loop goes on over an iterator that already existed, so Python fetches its next item; the body is compiled.",
    "loop over a list, a tuple or a range that is made inside the function",
)
UNCAUGHT = _row(
    "DJ-B009",
    "an exception leaves the function",
    "Python raises it, so that the traceback is the one the program would have had.",
    "nothing: errors are meant to be seen",
)
GLOBAL_STATE = _row(
    "DJ-B010",
    "a change of PyTorch's global state",
    "The setting changes how later operations behave, so Python makes the change.",
    "change it outside the compiled function",
)
IMPORT = _row(
    "DJ-B011",
    "an import that is not loaded yet",
    "Importing runs code of the module.",
    "import at the top of the notebook",
)
CLASS_STATEMENT = _row(
    "DJ-B012",
    "a class defined inside the function",
    "Building a class runs its body.",
    "define the class outside the function",
)
INTROSPECTION = _row(
    "DJ-B013",
    "the frame looks at itself",
    "locals(), eval, exec and frame objects need the real frame.",
    "pass the values explicitly",
)
ASYNC = _row(
    "DJ-B014",
    "a generator or coroutine that leaves the function",
    "It stays a real generator, so Python runs it.",
    "consume it inside the function",
)
USER_CONTEXT = _row(
    "DJ-B015",
    "a context manager that is run by Python",
    "Its entry and exit run as they are; the body is compiled.",
    "nothing, or use a context manager of PyTorch",
)
TOO_DEEP = _row(
    "DJ-B016",
    "calls nested too deeply",
    "The evaluator follows calls only to a certain depth.",
    "write the recursion as a loop",
)
WRITE_AND_ERROR = _row(
    "DJ-B017",
    "an operation that may fail, beside a write",
    "If it fails, everything before it must have happened once; so the two are in graphs of their own.",
    "nothing, or move the in-place operation out of the try block",
)
# ---- the program needs a tensor's data -----------------------------------------------------------------------
BRANCH_ON_TENSOR = _row(
    "DJ-D001",
    "a branch on a tensor value",
    "Which way to go is known only when the data is there.",
    "use torch.where, or torch.cond, to keep both ways in one graph",
)
TENSOR_DATA = _row(
    "DJ-D002",
    "a tensor's data is needed in Python",
    "item(), tolist() and printing need the numbers themselves.",
    "keep the value a tensor as long as possible",
)
DYNAMIC_SHAPE = _row(
    "DJ-D003",
    "an operation whose output size depends on the data",
    "nonzero, unique, masks and the like have no shape before they run.",
    "use torch.where with three arguments, or fixed sizes",
)
META_FAILED = _row(
    "DJ-D004",
    "an operation whose result cannot be predicted without running it",
    "PyTorch has no shape rule for it, or it raised for these arguments.",
    "Python runs it; errors are eager's own",
)
AUTOGRAD = _row(
    "DJ-D005",
    "gradients are computed or hooked inside the function",
    "backward() and hooks act on the autograd graph while it is being built.",
    "call backward() outside the compiled function",
)
LAYOUT = _row(
    "DJ-D006",
    "the memory layout of a computed tensor is asked for",
    "Strides of some operations depend on the kernel that runs.",
    "use reshape or contiguous() without asking first",
)
TENSOR_KIND = _row(
    "DJ-D007",
    "a kind of tensor that is not modelled",
    "Sparse, quantised and nested tensors, and classes with operators of their own, are run by Python.",
    "convert to a plain dense tensor first",
)
LARGE_ARRAY = _row(
    "DJ-D008",
    "a large array of NumPy",
    "What NumPy's functions return is learnt from a run on arrays of ones, which would take as long as the run itself.",
    "use tensors, or convert before and after the compiled function",
)
# ---- the frame runs as it is ----------------------------------------------------------------------------------
GENERATOR_FRAME = _row(
    "DJ-S001",
    "a generator or coroutine function",
    "Its frame is suspended and resumed by Python.",
    "compile the functions that it calls",
)
NOT_USER_CODE = _row(
    "DJ-S002",
    "library code",
    "Code of PyTorch, of the standard library and of installed compilers is run as it is.",
    "nothing",
)
LONG_LOOP = _row(
    "DJ-S003",
    "a long loop without tensor operations",
    "Tracing it would take longer than running it.",
    "nothing: it runs at Python's own speed",
)
LIMIT = _row(
    "DJ-S004",
    "compiled too often",
    "Each call needed a new entry; the function now runs eagerly.",
    "look at the guard that keeps failing (%compile why), pass that value as a tensor, or raise the limit",
)
AMBIENT = _row(
    "DJ-S005",
    "an ambient mode that is not captured",
    "Autocast and function modes change what every operation does.",
    "enter the mode inside the compiled function's caller only when needed",
)
INTERNAL = _row(
    "DJ-S006",
    "a fault of dynajit",
    "The frame runs eagerly, so the result is right.",
    "please report it with the text shown",
)
NOTHING_TO_DO = _row("DJ-S007", "nothing to compile", "There is no tensor operation in this frame.", "nothing")
TRACED = _row(
    "DJ-S008", "a debugger or tracer is active", "It must see the user's own frames.", "switch it off to compile"
)
