"""Python 3.12."""

import dis

from dynajit.bytecode.versions import fold, unfold
from dynajit.bytecode.versions.common import CONDITIONS, Version, caches_by_name

VERSION = Version(
    unfold=unfold.UNFOLD_FROM_312
    | {
        "KW_NAMES": unfold.kw_names,
        "LOAD_GLOBAL": unfold.load_global_null_first,
        "COMPARE_OP": unfold.compare(shift=4),
    },
    fold=fold.FOLD_FROM_312
    | {
        **{f"POP_JUMP_IF_{condition}": fold.conditional_jump(condition) for condition in CONDITIONS},
        "CALL": fold.call_with_kw_names,
        "COMPARE_OP": fold.fold_compare_with_mask(shift=4),
    },
    null_first=True,
    send_pops_receiver=False,
    loop_end=("END_FOR",),
    caches=caches_by_name(dis._inline_cache_entries),  # type: ignore[attr-defined]
)
