"""Instructions that Python always executes, and why. With the handlers, this covers every canonical instruction."""

from __future__ import annotations

from dynajit import reasons
from dynajit.reasons import Reason

UNSUPPORTED: dict[str, Reason] = {
    **dict.fromkeys(
        ("ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE",
         "CLEANUP_THROW"),
        reasons.ASYNC,
    ),
    **dict.fromkeys(
        ("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_LOCALS", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF",
         "LOAD_FROM_DICT_OR_GLOBALS", "SETUP_ANNOTATIONS"),
        reasons.CLASS_STATEMENT,
    ),
    **dict.fromkeys(("IMPORT_STAR",), reasons.IMPORT),
    **dict.fromkeys(("PRINT_EXPR",), reasons.PRINT),
    **dict.fromkeys(("CHECK_EG_MATCH", "PREP_RERAISE_STAR", "CALL_INTRINSIC_2"), reasons.UNSUPPORTED_INSTRUCTION),
}  # fmt: skip
