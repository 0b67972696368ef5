"""Two processes: a model under DistributedDataParallel, and functional collectives in the graph."""

import copy
import os
import socket

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import dynajit
from dynajit import events


def test_two_processes():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(work, args=(port,), nprocs=2)


def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), DYNAJIT_STRICT="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    trains_the_same(rank)
    collects_in_one_graph(rank)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of gloo that are still there may abort the interpreter's own exit


def trains_the_same(rank):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    eager = copy.deepcopy(net)
    compiled = dynajit.compile(DistributedDataParallel(net), backend="eager")
    wrapped = DistributedDataParallel(eager)
    for step in range(3):
        torch.manual_seed(10 * rank + step)
        x = torch.randn(5, 4)
        for model, parts in ((compiled, net), (wrapped, eager)):
            loss = model(x).square().mean()
            loss.backward()
            with torch.no_grad():
                for p in parts.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
        for a, b in zip(net.parameters(), eager.parameters(), strict=True):
            assert torch.equal(a, b)
    dynajit.reset()


def collects_in_one_graph(rank):
    group = dist.group.WORLD

    def f(x):
        total = collectives.all_reduce(x * 2, "sum", group)
        both = collectives.all_gather_tensor(x, 0, group)
        return total + 1, both.view(-1) * 2, dist.get_rank(), dist.get_world_size()

    seen = []
    x = torch.full((3,), float(rank + 1))
    with events.subscribed(seen.append):
        compiled = dynajit.compile(f, backend="eager")
        for _ in range(2):
            got, want = compiled(x), f(x)
            assert torch.equal(got[0], want[0])
            assert torch.equal(got[1], want[1])
            assert got[2:] == want[2:] == (rank, 2)
    added = [event.record.end for event in seen if isinstance(event, events.EntryAdded)]
    assert added == [None]
    dynajit.reset()
