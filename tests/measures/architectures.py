"""Architectures of `transformers` with random weights and small sizes: results, gradients, graphs and tracing time
beside eager and torch.compile(backend="eager").

    python tests/measures/architectures.py [--peer] [name ...]
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM

import dynajit
from dynajit import events

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
SMALL = {
    "vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
IMAGE = {"image_size": 32, "patch_size": 8, "num_channels": 3}


def ids(batch: int = 2, length: int = 8) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(3, 90, (batch, length), generator=torch.Generator().manual_seed(0))}


def masked() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    return {**ids(), "attention_mask": mask}


def pairs() -> dict[str, torch.Tensor]:
    return {**masked(), "decoder_input_ids": ids(length=5)["input_ids"]}


def pixels() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))}


def sound() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(2, 400, generator=torch.Generator().manual_seed(1))}


def spectrogram() -> dict[str, torch.Tensor]:
    features = torch.randn(2, 16, 20, generator=torch.Generator().manual_seed(1))
    return {"input_features": features, "decoder_input_ids": ids(length=5)["input_ids"]}


def text_and_pixels() -> dict[str, torch.Tensor]:
    return {**masked(), **pixels()}


LM, ENC, S2S = AutoModelForCausalLM, AutoModel, AutoModelForSeq2SeqLM
TWO = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
       "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "d_model": 16}  # fmt: skip
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
CONV = {"conv_dim": (8, 8), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2}  # fmt: skip
MOE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
KV = {"num_key_value_heads": 1, "head_dim": 8}

# name: (how the model is made, model type, configuration beside SMALL, arguments)
ARCHITECTURES: dict[str, tuple[Any, str, dict[str, Any], Callable[[], dict[str, torch.Tensor]]]] = {
    "bert": (ENC, "bert", {}, masked),
    "roberta": (ENC, "roberta", {}, masked),
    "distilbert": (ENC, "distilbert", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}, masked),
    "albert": (ENC, "albert", {"embedding_size": 8}, masked),
    "electra": (ENC, "electra", {"embedding_size": 8}, masked),
    "deberta-v2": (ENC, "deberta-v2", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, masked),
    "mpnet": (ENC, "mpnet", {}, masked),
    "modernbert": (ENC, "modernbert", {"global_attn_every_n_layers": 2, "local_attention": 4}, masked),
    "gpt2": (LM, "gpt2", {"n_embd": 16, "n_layer": 2, "n_head": 2}, masked),
    "gpt_neo": (LM, "gpt_neo", {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}, ids),
    "gpt_neox": (LM, "gpt_neox", {}, ids),
    "opt": (LM, "opt", {"ffn_dim": 32, "word_embed_proj_dim": 16}, masked),
    "bloom": (LM, "bloom", {"n_layer": 2, "n_head": 2}, masked),
    "llama": (LM, "llama", KV, masked),
    "mistral": (LM, "mistral", KV, ids),
    "qwen2": (LM, "qwen2", KV, ids),
    "gemma": (LM, "gemma", KV, ids),
    "gemma2": (LM, "gemma2", KV, ids),
    "phi": (LM, "phi", {}, ids),
    "mixtral": (LM, "mixtral", {**KV, **MOE}, ids),
    "qwen2_moe": (LM, "qwen2_moe", {**KV, **MOE, "shared_expert_intermediate_size": 16}, ids),
    "mamba": (LM, "mamba", {"state_size": 4}, ids),
    "t5": (S2S, "t5", T5, pairs),
    "bart": (S2S, "bart", TWO, pairs),
    "pegasus": (S2S, "pegasus", TWO, pairs),
    "vit": (ENC, "vit", IMAGE, pixels),
    "deit": (ENC, "deit", IMAGE, pixels),
    "beit": (ENC, "beit", IMAGE, pixels),
    "swin": (ENC, "swin", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
                           "num_attention_heads": [2, 2], "window_size": 4}, pixels),
    "convnext": (ENC, "convnext", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, pixels),
    "resnet": (ENC, "resnet", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, pixels),
    "clip": (ENC, "clip", {"text_config": SMALL, "vision_config": {**SMALL, **IMAGE}, "projection_dim": 8},
             text_and_pixels),
    "wav2vec2": (ENC, "wav2vec2", {**CONV, "mask_time_prob": 0.0}, sound),
    "hubert": (ENC, "hubert", {**CONV, "mask_time_prob": 0.0}, sound),
    "whisper": (ENC, "whisper", {**TWO, "num_mel_bins": 16, "max_source_positions": 10, "max_target_positions": 20,
                                 "decoder_start_token_id": 1, "mask_time_prob": 0.0}, spectrogram),
}  # fmt: skip


def build(name: str) -> torch.nn.Module:
    maker, kind, extra, _ = ARCHITECTURES[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**({} if name == "clip" else SMALL), **extra})
    made: torch.nn.Module = maker.from_config(config)
    return made


def tensors(output: Any) -> list[torch.Tensor]:
    """All tensors of an output, caches included."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        return [t for value in output.values() for t in tensors(value)]
    if isinstance(output, (list, tuple)):
        return [t for value in output for t in tensors(value)]
    if hasattr(output, "layers"):
        return [t for layer in output.layers for t in tensors(list(vars(layer).values()))]
    return []


def run(model: torch.nn.Module, name: str, train: bool) -> list[torch.Tensor]:
    """Outputs, and in training mode gradients as well."""
    torch.manual_seed(1)
    output = model(**ARCHITECTURES[name][3]())
    found = tensors(output)
    if train:
        sum(t.float().square().mean() for t in found if t.requires_grad).backward()
        found += [p.grad for p in model.parameters() if p.grad is not None]
        model.zero_grad()
    return [t.detach().clone() for t in found]


def same(got: list[torch.Tensor], want: list[torch.Tensor]) -> bool:
    return len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def check(name: str, train: bool) -> tuple[bool, list[str], float]:
    """(equal to eager, what broke each graph that is not the last, seconds of the first call)."""
    model = build(name).train(train)
    eager = copy.deepcopy(model)
    with torch.set_grad_enabled(train):
        want = run(eager, name, train)
    seen: list[events.Event] = []
    with events.subscribed(seen.append), torch.set_grad_enabled(train):
        compiled = dynajit.compile(model, backend="eager")
        started = time.perf_counter()
        first = run(compiled, name, train)
        seconds = time.perf_counter() - started
        second = run(compiled, name, train)
    added = [event.record for event in seen if isinstance(event, events.EntryAdded)]
    breaks = [f"{r.end.reason.code} {r.end.detail}" if r.end else "" for r in added]
    breaks += [f"skipped: {e.detail[-200:]}" for e in seen if isinstance(e, events.FrameSkipped)]
    dynajit.reset()
    return same(first, want) and same(second, want), breaks, seconds


def peer(name: str, train: bool) -> tuple[int, float]:
    """Graphs and first-call seconds of torch.compile."""
    count = 0

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        nonlocal count
        count += 1
        return module.forward

    torch._dynamo.reset()
    model = build(name).train(train)
    run(copy.deepcopy(model), name, train)
    compiled = torch.compile(model, backend=backend)
    with torch.set_grad_enabled(train):
        started = time.perf_counter()
        run(compiled, name, train)
        return count, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    wrong, single, ours, theirs = [], 0, 0.0, 0.0
    names = options.names or list(ARCHITECTURES)
    for name in names:
        for train in (False, True):
            try:
                equal, breaks, seconds = check(name, train)
            except Exception as error:
                print(f"{name:<12} {type(error).__name__}: {str(error)[:300]}", flush=True)
                wrong.append(name)
                dynajit.reset()
                continue
            beside = ""
            if options.peer:
                count, other = peer(name, train)
                beside, ours, theirs = f"{count:>4} graphs, {other:.2f} s", ours + seconds, theirs + other
            wrong += [] if equal else [name]
            single += breaks == [""]
            text = "; ".join(filter(None, breaks))[:400]
            print(f"{name:<12} {'train' if train else 'eval':<6}{'' if equal else 'WRONG '}{len(breaks):>3} graphs, "
                  f"{seconds:.2f} s | {beside} | {text}", flush=True)  # fmt: skip
    print(f"{2 * len(names)} runs, one graph {single}, wrong {wrong}")
    if options.peer:
        print(f"first calls: {ours:.2f} s, torch.compile {theirs:.2f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
