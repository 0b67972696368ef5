"""What autocast does to the dtypes of arguments: meta tensors are not subject to it, so it is repeated here.

The lists are those of PyTorch's own kernels for the autocast keys (ATen/autocast_mode.h and .cpp), and operations that
are made of such operations. tests/capture/test_autocast.py compares them with real calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_LOWER_EVERYWHERE = """
conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d _convolution prelu addmm matmul mm
linalg_vecdot linear addbmm baddbmm bmm scaled_dot_product_attention einsum __matmul__ rmatmul __rmatmul__ tensordot
chain_matmul linalg_multi_dot
"""
_FP32_EVERYWHERE = """
poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d nll_loss_nd hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
multi_margin_loss binary_cross_entropy_with_logits cdist prod cross_entropy_loss
"""
_LISTS: dict[str, dict[str, frozenset[str]]] = {
    "cpu": {
        "lower": frozenset((_LOWER_EVERYWHERE + " _addmm_activation _native_multi_head_attention").split()),
        "float32": frozenset((_FP32_EVERYWHERE + """
            adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cholesky cholesky_inverse
            cholesky_solve ctc_loss fake_quantize_per_tensor_affine fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft
            fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn
            fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d grid_sampler_3d inverse
            linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
            linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve
            linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve max_pool3d max_unpool2d
            max_unpool3d nanquantile orgqr ormqr pinverse polar qr quantile reflection_pad1d reflection_pad2d
            replication_pad1d replication_pad2d replication_pad3d stft svd trace triangular_solve view_as_complex
            """).split()),
        "widest": frozenset("""
            cat stack index_copy concat concatenate hstack vstack dstack row_stack column_stack
            """.split()),
    },
    "cuda": {
        "lower": frozenset((_LOWER_EVERYWHERE + """
            addmv addr mv _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
            """).split()),
        "float32": frozenset((_FP32_EVERYWHERE + """
            acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm
            native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm cosine_similarity dist pdist renorm
            logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d
            upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
            _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa softmax log_softmax
            cumprod cumsum linalg_vector_norm linalg_matrix_norm sum norm __pow__ __rpow__ linalg_norm
            """).split()),
        "widest": frozenset("""
            addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put scatter_add cat stack
            """.split()),
    },
}  # fmt: skip
# Made of operations that are cast or not, as the arguments' values and sizes have it: only running them tells.
UNCERTAIN = frozenset(
    "inner matrix_power linalg_matrix_power linalg_pinv pinverse linalg_matrix_exp matrix_exp".split()
)
_ASKS_FOR_DTYPE = frozenset(
    "prod softmax log_softmax cumprod cumsum sum linalg_vector_norm linalg_matrix_norm norm".split()
)


def cast(
    name: str, device: str, dtype: torch.dtype, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as the operation's kernel gets them in a region that casts to `dtype` on this kind of device."""
    lists = _LISTS.get(device, _LISTS["cuda"])
    to: torch.dtype | None = None
    if name in UNCERTAIN:
        raise NotImplementedError("no fake impl under autocast")
    if name in lists["lower"]:
        to = dtype
    elif name in lists["float32"] and not (name in _ASKS_FOR_DTYPE and kwargs.get("dtype") is not None):
        to = torch.float32
    elif name in lists["widest"]:
        to = _widest(args, dtype)
    if to is None:
        return list(args), dict(kwargs)
    convert = _caster(to)
    return [convert(arg) for arg in args], {key: convert(arg) for key, arg in kwargs.items()}


def _caster(to: torch.dtype) -> Callable[[Any], Any]:
    def convert(arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg.to(to) if arg.is_floating_point() and arg.dtype not in (torch.float64, to) else arg
        if isinstance(arg, (list, tuple)):
            return type(arg)(map(convert, arg))
        return arg

    return convert


def _widest(args: Sequence[Any], lower: torch.dtype) -> torch.dtype:
    """float32 where one of the tensors has it, else what is cast to."""
    found = lower
    for arg in args:
        for tensor in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float32:
                found = torch.float32
    return found


def policy(name: str, device: str) -> str:
    """ "lower", "float32", "widest", or "" for an operation that autocast leaves alone."""
    return next((key for key, names in _LISTS[device].items() if name in names), "")
