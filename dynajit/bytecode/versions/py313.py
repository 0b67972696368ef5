"""Python 3.13."""

import dis

from dynajit.bytecode.versions import fold, unfold
from dynajit.bytecode.versions.common import CONDITIONS, Version, caches_by_name

VERSION = Version(
    unfold=unfold.UNFOLD_FROM_312
    | {
        "LOAD_GLOBAL": unfold.load_global_null_last,
        "CALL_KW": unfold.call_kw,
        "COMPARE_OP": unfold.compare_with_truth,
        "LOAD_FAST": unfold.load_fast_or_closure,
        "LOAD_FAST_LOAD_FAST": unfold.pair("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": unfold.pair("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": unfold.pair("STORE_FAST", "STORE_FAST"),
        "TO_BOOL": unfold.to_bool,
        "MAKE_FUNCTION": unfold.named("MAKE_FUNCTION", 0),
        "SET_FUNCTION_ATTRIBUTE": unfold.set_function_attribute,
        "FORMAT_SIMPLE": unfold.named("FORMAT_VALUE", 0),
        "FORMAT_WITH_SPEC": unfold.named("FORMAT_VALUE", 4),
    },
    fold=fold.FOLD_FROM_312
    | {
        **{f"POP_JUMP_IF_{condition}": fold.conditional_jump(condition, to_bool=True) for condition in CONDITIONS},
        "LOAD_CLOSURE": fold.slot_as("LOAD_FAST"),
        "CALL": fold.call_or_call_kw,
        "COMPARE_OP": fold.fold_compare_with_mask(shift=5),
        "UNARY_NOT": fold.to_bool_then_not,
        "MAKE_FUNCTION": fold.make_function_then_attributes,
        "FORMAT_VALUE": fold.format_simple_or_spec,
    },
    null_first=False,
    send_pops_receiver=False,
    loop_end=("END_FOR", "POP_TOP"),
    caches=caches_by_name(dis._inline_cache_entries),  # type: ignore[attr-defined]
)
