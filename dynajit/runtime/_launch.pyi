from typing import Any

class Launch:
    def __new__(
        cls,
        address: int,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        keeps: tuple[bool, ...],
        dtypes: tuple[Any, ...],
        sizes: tuple[Any, ...],
        loops: tuple[Any, ...],
        pins: tuple[Any, ...],
        numbers: str,
        measures: tuple[Any, ...],
    ) -> Launch: ...
    def __call__(self, *args: Any) -> Any: ...

def setup(
    addresses: tuple[int, int, int, int, int],
    tensor: int,
    keys: int,
    plain_keys: int,
    types: tuple[type, type],
    empty_strided: Any,
) -> None: ...
def find_word(address: int, size: int, word: int) -> int: ...
def facts(tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], int] | None: ...
