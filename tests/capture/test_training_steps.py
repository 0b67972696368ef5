"""Whole training steps: the model or the step compiled, with and without autocast; every weight is eager's."""

import pytest
import torch
import torch.nn.functional as F
from programs import T
from torch import nn

import dynajit
from dynajit import events


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.drop, self.calls = nn.Dropout(0.3), 0

    def forward(self, x):
        self.calls += 1
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def train(optimizer, amp, what, backend):
    torch.manual_seed(0)
    net = Net()
    made = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer](net.parameters(), lr=0.05)

    def step(x, y):
        made.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        made.step()
        return loss.item()

    run = step
    if what == "step":
        run = dynajit.compile(step, backend=backend)
    elif what == "model":
        dynajit.compile(net, backend=backend)
    losses = []
    for i in range(3):
        torch.manual_seed(i)
        losses.append(run(torch.randn(6, 4), torch.randint(0, 3, (6,))))
    dynajit.reset()
    return losses, net.calls, [t.detach().clone() for t in (*net.parameters(), *net.buffers())]


@pytest.mark.parametrize("what", ["model", "step"])
@pytest.mark.parametrize("amp", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.filterwarnings("ignore")
def test_same_weights(optimizer, amp, what):
    want = train(optimizer, amp, "nothing", "")
    got = train(optimizer, amp, what, "eager")
    assert got[:2] == want[:2]
    assert all(torch.equal(a, b) for a, b in zip(got[2], want[2], strict=True))


OPTIMIZERS = {
    **{name: (lambda params, cls=getattr(torch.optim, name): cls(params, lr=1e-2))
       for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD",
                    "Rprop", "Adafactor")},
    "SGD, momentum": lambda params: torch.optim.SGD(params, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam, amsgrad": lambda params: torch.optim.Adam(params, amsgrad=True),
    "Adam, foreach": lambda params: torch.optim.Adam(params, foreach=True),
    "AdamW, fused": lambda params: torch.optim.AdamW(params, fused=True),
    "Adam, maximize": lambda params: torch.optim.Adam(params, maximize=True),
    "Adam, tensor lr": lambda params: torch.optim.Adam(params, lr=torch.tensor(0.01)),
}  # fmt: skip
# These look at data, or cannot be predicted without it, in the middle of their step.
IN_PARTS = ("RAdam", "ASGD", "Rprop", "Adafactor", "Adam, tensor lr")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore")
def test_an_optimizer_in_the_step(name):
    """zero_grad, the loss, clipping, the step and the schedule: one break, which is `backward()`."""

    def run(compiled):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
        made = OPTIMIZERS[name](net.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(made, 2, 0.5)

        def step(x, y):
            made.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            made.step()
            schedule.step()
            return loss.item()

        losses, seen = [], []
        call = dynajit.compile(step, backend="eager") if compiled else step
        with events.subscribed(seen.append):
            for i in range(5):
                torch.manual_seed(i)
                losses.append(call(torch.randn(6, 4), torch.randint(0, 3, (6,))))
        dynajit.reset()
        state = [value for held in made.state_dict()["state"].values() for value in held.values()]
        made_entries = [event.record for event in seen if isinstance(event, events.EntryAdded)]
        ends = {(entry.end.reason.code, entry.end.detail) for entry in made_entries if entry.end is not None}
        return losses, [*(p.detach() for p in net.parameters()), *state], schedule.get_last_lr(), ends

    want, got = run(False), run(True)
    assert got[0] == want[0]
    for a, b in zip(got[1], want[1], strict=True):
        assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b
    assert got[2] == want[2]
    assert {code for code, _ in got[3]} == {"DJ-D005"} or name in IN_PARTS, got[3]


@pytest.mark.filterwarnings("ignore")
def test_kernels_in_a_step_that_begins_with_zero_grad():
    """What the graph does before it computes does not keep the rest from both of its passes being kernels."""

    def run(backend):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 4))
        made = torch.optim.SGD(net.parameters(), 0.1)

        def step(x):
            made.zero_grad()
            loss = (net(x) * 2).tanh().square().mean()
            loss.backward()
            made.step()
            return loss.detach()

        call = dynajit.compile(step, backend=backend) if backend else step
        losses = [call(T(2000, 32, seed=i)) for i in range(4)]
        kernels = dynajit.report(call).kernels if backend else ()
        dynajit.reset()
        return losses, [p.grad for p in net.parameters()], kernels

    want, got = run(""), run("native")
    assert any("backward" in kernel.name for kernel in got[2])
    for a, b in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
