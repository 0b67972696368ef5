"""Python 3.13."""

import dis

from dynajit.bytecode.versions import common as c

VERSION = c.Version(
    unfold=c.UNFOLD_FROM_312
    | {
        "LOAD_GLOBAL": c.load_global_null_last,
        "CALL_KW": c.call_kw,
        "COMPARE_OP": c.compare_with_truth,
        "LOAD_FAST": c.load_fast_or_closure,
        "LOAD_FAST_LOAD_FAST": c.pair("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": c.pair("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": c.pair("STORE_FAST", "STORE_FAST"),
        "TO_BOOL": c.to_bool,
        "MAKE_FUNCTION": c.named("MAKE_FUNCTION", 0),
        "SET_FUNCTION_ATTRIBUTE": c.set_function_attribute,
        "FORMAT_SIMPLE": c.named("FORMAT_VALUE", 0),
        "FORMAT_WITH_SPEC": c.named("FORMAT_VALUE", 4),
    },
    fold=c.FOLD_FROM_312
    | {
        **{f"POP_JUMP_IF_{condition}": c.conditional_jump(condition, to_bool=True) for condition in c.CONDITIONS},
        "LOAD_CLOSURE": c.slot_as("LOAD_FAST"),
        "CALL": c.call_or_call_kw,
        "COMPARE_OP": c.fold_compare_with_mask(shift=5),
        "UNARY_NOT": c.to_bool_then_not,
        "MAKE_FUNCTION": c.make_function_then_attributes,
        "FORMAT_VALUE": c.format_simple_or_spec,
    },
    null_first=False,
    send_pops_receiver=False,
    loop_end=("END_FOR", "POP_TOP"),
    caches=c.caches_by_name(dis._inline_cache_entries),  # type: ignore[attr-defined]
)
