"""Which frames are never traced when they are entered by chance: code of libraries that run as they are."""

from __future__ import annotations

import functools
import os
import sysconfig
from types import CodeType

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_MODULES = os.path.join(_TORCH, "nn", "modules") + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")}  # site-packages lies below: see is_library
)
_LIBRARIES = ("IPython", "ipykernel", "ipywidgets", "traitlets", "jupyter_client", "tornado", "zmq", "numpy", "pandas",
              "matplotlib", "pytest", "_pytest", "pluggy", "debugpy", "kernel_ext", "anywidget", "comm", "sympy",
              "triton", "scipy", "PIL", "tqdm", "coverage", "hypothesis", "setuptools", "pip", "huggingface_hub",
              "tokenizers", "safetensors", "wandb", "tensorboard", "torchvision", "nbclient")  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _is_library_file(filename: str) -> bool:
    if filename.startswith(("<frozen", "<__array_function__", "<eval_with_key>", "<string>", "<attrs")):
        return True
    path = os.path.abspath(filename)
    if path.startswith(_MODULES):  # layers are tensor code like the user's own
        return os.path.basename(path) == "module.py"
    if path.startswith((_TORCH, _OURS)):
        return True
    parts = path.split(os.sep)
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            rest = parts[parts.index(marker) + 1 :]
            return bool(rest) and rest[0].partition(".")[0] in _LIBRARIES
    return path.startswith(_STDLIB)


def is_library(code: CodeType) -> bool:
    return _is_library_file(code.co_filename)
