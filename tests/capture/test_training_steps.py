"""Whole training steps: the model or the step compiled, with and without autocast; every weight is eager's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynajit


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
