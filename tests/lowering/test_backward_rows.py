"""Single operations of backward passes: eager's bits where elementwise, else its accuracy."""

from __future__ import annotations

import pytest
import torch
from against_eager import Row, check, row, t

aten = torch.ops.aten
F64, BF16 = torch.float64, torch.bfloat16
A, G = t(7, 33), t(7, 33, seed=1)
WIDE = (t(3, 300), t(3, 300, seed=1))
KINDS = [(A, G), WIDE, *((t(3, 30, dtype=d), t(3, 30, dtype=d, seed=1)) for d in (F64, BF16, torch.float16))]
GELU = {torch.float32: 4e-6, F64: 1e-13, BF16: 1.6e-2, torch.float16: 2e-3}


def _pairs(op: object, *rest: object, **more: object) -> list[Row]:
    return [row(op, g, x, *rest, **more) for x, g in KINDS]


X, Y = t(8, 32, 24, 24), t(8, 32, 24, 24, seed=1)
W, M, V = t(32), t(32, seed=2), t(32, seed=3).abs() + 0.5
WITH = [True, True, True]
MEANS = (*aten.native_batch_norm(X, W, None, None, None, True, 0.1, 1e-5)[1:],)
GROUPED = (*aten.native_group_norm(X, W, None, 8, 32, 576, 4, 1e-5)[1:],)
KEPT = (torch.float32, F64, BF16)
ROWS = [
    *(
        row(
            aten.native_batch_norm_backward,
            Y,
            X,
            w,
            M,
            V,
            *MEANS,
            train,
            1e-5,
            WITH,
            exact=False,
            tolerance=2e-5,
            skip="special gaps transposed empty no-dimensions",
        )
        for w in (W, None)
        for train in (True, False)
    ),
    *(
        row(
            aten.native_group_norm_backward,
            Y,
            X,
            *GROUPED,
            w,
            8,
            32,
            576,
            4,
            WITH,
            exact=False,
            tolerance=2e-5,
            skip="special gaps",
        )
        for w in (W,)
    ),
    *(
        row(aten.select_backward, t(7, 5, dtype=d), (7, 33, 5), 1, k, skip="one-row empty")
        for k in (3, -1)
        for d in KEPT
    ),
    row(aten.select_backward, t(7), (7, 33), 1, 0),
    row(aten.select_backward, t(33), (7, 33), 0, 2),
    *(row(aten.slice_backward, A, (7, 50), 1, start, end, 1) for start, end in ((0, 33), (5, 38), (-33, 2**63 - 1))),
    row(aten.slice_backward, A, (12, 33), 0, 3, 10, 1),
    row(aten.slice_backward, A, (7, 33), 1, 0, 33, 1),
    row(aten.slice_backward, A, (7, 66), 1, 0, 66, 2, lowered=False),
    *_pairs(aten.tanh_backward),
    *_pairs(aten.sigmoid_backward),
    *_pairs(aten.threshold_backward, 0),
    *_pairs(aten.hardtanh_backward, -1.0, 1.5, skip="special"),  # NaN passes in what no whole vector holds
    *_pairs(aten.leaky_relu_backward, 0.01, False),
    *_pairs(aten.silu_backward),
    *_pairs(aten.gelu_backward, approximate="tanh"),
    *(
        row(aten.gelu_backward, g, x, approximate="none", exact=False, skip="special", tolerance=GELU[x.dtype])
        for x, g in KINDS
    ),
    row(aten.mse_loss_backward, G, A, WIDE[0].reshape(-1)[:231].reshape(7, 33), 0),
    row(aten.mse_loss_backward, t(), A, G, 1),
    row(aten.mse_loss_backward, t(), A, G, 2),
    *(row(aten._softmax_backward_data, G, A, d, torch.float32, exact=False) for d in (0, 1)),
    *(row(aten._log_softmax_backward_data, G, A, d, torch.float32, exact=False) for d in (0, 1)),
    row(aten._softmax_backward_data, t(9, 80, dtype=BF16), t(9, 80, dtype=BF16, seed=1), 1, BF16, exact=False),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)
