"""Python 3.11."""

import dis

from dynajit.bytecode.versions import fold, unfold
from dynajit.bytecode.versions.common import CONDITIONS, Version, caches_by_name

VERSION = Version(
    unfold=unfold.UNFOLD
    | {
        **{
            f"POP_JUMP_{way}_IF_{condition}": unfold.jump(f"POP_JUMP_IF_{condition}")
            for way in ("FORWARD", "BACKWARD")
            for condition in CONDITIONS
        },
        "JUMP_IF_TRUE_OR_POP": unfold.jump_or_pop("POP_JUMP_IF_TRUE"),
        "JUMP_IF_FALSE_OR_POP": unfold.jump_or_pop("POP_JUMP_IF_FALSE"),
        "PRECALL": unfold.dropped,
        "KW_NAMES": unfold.kw_names,
        "LOAD_GLOBAL": unfold.load_global_null_first,
        "COMPARE_OP": unfold.compare(shift=0),
    },
    fold=fold.FOLD
    | {
        **{
            f"POP_JUMP_IF_{condition}": fold.directed(
                f"POP_JUMP_FORWARD_IF_{condition}", f"POP_JUMP_BACKWARD_IF_{condition}"
            )
            for condition in CONDITIONS
        },
        "CALL": fold.call_with_precall,
        "COMPARE_OP": fold.fold_compare,
    },
    null_first=True,
    send_pops_receiver=True,
    loop_end=(),
    caches=caches_by_name(dis._inline_cache_entries),  # type: ignore[attr-defined]
)
