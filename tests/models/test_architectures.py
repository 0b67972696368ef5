"""Real architectures with random weights: one graph, eager's results, gradients too."""

import copy
import os

import pytest
import torch
import transformers

import dynajit
from dynajit import events

os.environ["DYNAJIT_STRICT"] = "1"
IDS = torch.randint(0, 90, (2, 7), generator=torch.Generator().manual_seed(0))
SMALL = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def build(name):
    torch.manual_seed(0)
    configs = {
        "Bert": (transformers.BertConfig(**SMALL), transformers.BertModel),
        "Roberta": (transformers.RobertaConfig(**SMALL), transformers.RobertaModel),
        "DistilBert": (
            transformers.DistilBertConfig(vocab_size=99, dim=16, n_layers=2, n_heads=2, hidden_dim=32),
            transformers.DistilBertModel,
        ),
        "GPT2": (
            transformers.GPT2Config(vocab_size=99, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1),
            transformers.GPT2LMHeadModel,
        ),
        "Llama": (transformers.LlamaConfig(**SMALL), transformers.LlamaForCausalLM),
        "ViT": (
            transformers.ViTConfig(
                image_size=32, patch_size=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"}
            ),
            transformers.ViTModel,
        ),
    }
    config, cls = configs[name]
    return cls(config).eval()


def arguments(name, batch=2):
    if name == "ViT":
        return {"pixel_values": torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    return {"input_ids": IDS[:batch]}


@pytest.mark.parametrize("name", ["Bert", "Roberta", "DistilBert", "GPT2", "Llama", "ViT"])
def test_one_graph_and_the_same_result(name):
    model = build(name)
    eager = copy.deepcopy(model)
    seen = []
    with events.subscribed(seen.append), torch.no_grad():
        compiled = dynajit.compile(model, backend="eager")
        for batch in (2, 2, 1):
            got, want = compiled(**arguments(name, batch)), eager(**arguments(name, batch))
            assert type(got) is type(want)
            assert list(got) == list(want)
            assert torch.equal(got[0], want[0])
    added = [event.record for event in seen if isinstance(event, events.EntryAdded)]
    assert [(entry.end, entry.graph is not None) for entry in added] == [(None, True)] * 2
    dynajit.reset(compiled)


def test_a_training_step():
    model = build("Bert").train()
    eager = copy.deepcopy(model)
    dynajit.compile(model, backend="eager")
    for net in (model, eager):
        torch.manual_seed(1)
        net(input_ids=IDS).last_hidden_state.square().mean().backward()
    for (name, a), b in zip(model.named_parameters(), eager.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            assert torch.equal(a.grad, b.grad), name
    dynajit.reset(model)


@pytest.mark.parametrize("name", ["Bert", "Llama"])
def test_native_kernels(name):
    model = build(name)
    eager = copy.deepcopy(model)
    with torch.no_grad():
        compiled = dynajit.compile(model, backend="native")
        for batch in (2, 1):
            got, want = compiled(**arguments(name, batch))[0], eager(**arguments(name, batch))[0]
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    kernels = dynajit.report(compiled).kernels
    assert any(kernel.launched for kernel in kernels)
    dynajit.reset(compiled)
