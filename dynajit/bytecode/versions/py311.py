"""Python 3.11."""

import dis

from dynajit.bytecode.versions import common as c

VERSION = c.Version(
    unfold=c.UNFOLD
    | {
        **{
            f"POP_JUMP_{way}_IF_{condition}": c.jump(f"POP_JUMP_IF_{condition}")
            for way in ("FORWARD", "BACKWARD")
            for condition in c.CONDITIONS
        },
        "JUMP_IF_TRUE_OR_POP": c.jump_or_pop("POP_JUMP_IF_TRUE"),
        "JUMP_IF_FALSE_OR_POP": c.jump_or_pop("POP_JUMP_IF_FALSE"),
        "PRECALL": c.dropped,
        "KW_NAMES": c.kw_names,
        "LOAD_GLOBAL": c.load_global_null_first,
        "COMPARE_OP": c.compare(shift=0),
    },
    fold=c.FOLD
    | {
        **{
            f"POP_JUMP_IF_{condition}": c.directed(
                f"POP_JUMP_FORWARD_IF_{condition}", f"POP_JUMP_BACKWARD_IF_{condition}"
            )
            for condition in c.CONDITIONS
        },
        "CALL": c.call_with_precall,
        "COMPARE_OP": c.fold_compare,
    },
    null_first=True,
    send_pops_receiver=True,
    loop_end=(),
    caches=c.caches_by_name(dis._inline_cache_entries),  # type: ignore[attr-defined]
)
