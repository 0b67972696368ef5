"""Every context of PyTorch that switches a mode, used in each way: nothing stays switched that eager switches back."""

import contextlib

import pytest
import torch
from programs import Program, T
from torch.nn.attention import SDPBackend, sdpa_kernel

CONTEXTS = {
    "no_grad": lambda: torch.no_grad(),
    "enable_grad": lambda: torch.enable_grad(),
    "set_grad_enabled(False)": lambda: torch.set_grad_enabled(False),
    "set_grad_enabled(True)": lambda: torch.set_grad_enabled(True),
    "inference_mode": lambda: torch.inference_mode(),
    "inference_mode(False)": lambda: torch.inference_mode(False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
    "cpu.amp.autocast": lambda: torch.amp.autocast("cpu", torch.bfloat16),
    "sdpa_kernel": lambda: sdpa_kernel(SDPBackend.MATH),
    "mkldnn flags": lambda: torch.backends.mkldnn.flags(enabled=False),
    "set_multithreading_enabled": lambda: torch.autograd.set_multithreading_enabled(False),
    "record_function": lambda: torch.profiler.record_function("here"),
    "fork_rng": lambda: torch.random.fork_rng(devices=[]),
    "nullcontext": lambda: contextlib.nullcontext(),
    "device": lambda: torch.device("cpu"),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(False),
}


def within(make):
    def program(x):
        before = torch.is_grad_enabled()
        with make():
            y = x @ x
            inside = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        z = x @ x
        return y, z, inside, before, torch.is_grad_enabled(), y.requires_grad, z.requires_grad

    return program


def made_before(make):
    def program(x):
        kept = make()
        a = x * 2
        with kept:
            b = x * 3
        return a, b, x * 4, torch.is_grad_enabled()

    return program


def entered_by_hand(make):
    def program(x):
        kept = make()
        kept.__enter__()
        try:
            a = x @ x
        finally:
            kept.__exit__(None, None, None)
        return a, x @ x, torch.is_grad_enabled()

    return program


def two_at_once(make):
    def program(x):
        with make(), torch.no_grad(), make():
            a = x @ x
        return a, x @ x, torch.is_grad_enabled()

    return program


def with_an_error(make):
    def program(x):
        try:
            with make():
                a = x @ x
                raise ValueError("here")
        except ValueError:
            return a, x @ x, torch.is_grad_enabled()

    return program


def with_a_break(make):
    def program(x):
        with make():
            a = x @ x
            print("here")
            b = x @ x
        return a, b, x @ x, torch.is_grad_enabled()

    return program


def returning_inside(make):
    def inner(x):
        with make():
            return x @ x

    def program(x):
        return inner(x), x @ x, torch.is_grad_enabled()

    return program


def left_by_the_loop(make):
    def program(x):
        found = []
        for i in range(3):
            with make():
                if i == 1:
                    break
                found.append(x * i)
        return found, x @ x, torch.is_grad_enabled()

    return program


USES = (
    within, made_before, entered_by_hand, two_at_once, with_an_error, with_a_break, returning_inside, left_by_the_loop,
)  # fmt: skip


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("use", USES)
def test_like_eager(use, name, grad):
    fn = use(CONTEXTS[name])
    Program(fn, (T(3, 3, grad=grad),), graphs=None, breaks=None).check()
