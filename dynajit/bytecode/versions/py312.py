"""Python 3.12."""

import dis

from dynajit.bytecode.versions import common as c

VERSION = c.Version(
    unfold=c.UNFOLD_FROM_312
    | {
        "KW_NAMES": c.kw_names,
        "LOAD_GLOBAL": c.load_global_null_first,
        "COMPARE_OP": c.compare(shift=4),
    },
    fold=c.FOLD_FROM_312
    | {
        **{f"POP_JUMP_IF_{condition}": c.conditional_jump(condition) for condition in c.CONDITIONS},
        "CALL": c.call_with_kw_names,
        "COMPARE_OP": c.fold_compare_with_mask(shift=4),
    },
    null_first=True,
    send_pops_receiver=False,
    loop_end=("END_FOR",),
    caches=c.caches_by_name(dis._inline_cache_entries),  # type: ignore[attr-defined]
)
