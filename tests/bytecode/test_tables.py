"""Line and exception tables hold any position and any row."""

import random

import pytest
from bodies import body

from dynajit.bytecode import NOWHERE, Instr, Label, Position, Region, decode, encode, flow
from dynajit.bytecode.tables import Row, read_exception_table, write_exception_table

POSITIONS = [
    Position(1, 1, 0, 1),
    Position(1, 1, 200, 300),
    Position(90_000, 90_007, 5, 2),
    Position(2, 3, 70_000, 64),
    NOWHERE,
    Position(7, 7, None, None),
    Position(3, 9, None, None),
    Position(3, 9, 4, None),
    Position(-5, -5, 1, 2),
]


def random_positions():
    rng = random.Random(0)
    lines = [rng.randrange(1, 10 ** rng.randrange(1, 7)) for _ in range(500)]
    return [Position(line, line + rng.randrange(4), rng.randrange(300), rng.randrange(300)) for line in lines]


@pytest.mark.parametrize("positions", [POSITIONS, POSITIONS[::-1], random_positions()])
def test_positions_come_back(positions):
    items = [Instr("NOP", position=position) for position in positions]
    code = encode(body(*items, Instr("LOAD_CONST", None), Instr("RETURN_VALUE")))
    nops = [item.position for item in decode(code).body if isinstance(item, Instr) and item.op == "NOP"]
    assert nops == positions
    assert [*code.co_positions()][1 : 1 + len(positions)] == positions


def test_a_missing_end_line_is_the_line():
    code = encode(body(Instr("LOAD_CONST", None, position=Position(4, None, None, None)), Instr("RETURN_VALUE")))
    assert [*code.co_positions()][1] == (4, 4, None, None)


def test_instructions_longer_than_a_table_entry():
    load = Instr("LOAD_ATTR", "real", position=Position(5, 5, 1, 2))  # 10 code units on 3.12
    code = encode(body(Instr("LOAD_FAST", "x"), load, Instr("RETURN_VALUE"), args="x"))
    assert decode(code).body[2] == load


def test_exception_table_rows_come_back():
    rng = random.Random(0)
    rows = [
        Row(2 * start, 2 * (start + size), 2 * rng.randrange(100_000), rng.randrange(100), rng.random() < 0.5)
        for start in sorted(rng.sample(range(100_000), 300))
        for size in [rng.randrange(1, 5000)]
    ]
    assert [*read_exception_table(write_exception_table(rows))] == rows


def test_nested_regions_are_flattened_innermost_first():
    outer, inner = object(), object()
    assert flow.flatten([(0, 10, outer), (2, 5, inner)]) == [(0, 2, outer), (2, 5, inner), (5, 10, outer)]
    assert flow.flatten([(2, 5, inner), (0, 10, outer)]) == [(0, 2, outer), (2, 5, inner), (5, 10, outer)]
    assert flow.flatten([(0, 10, outer), (0, 5, inner)]) == [(0, 5, inner), (5, 10, outer)]
    assert flow.flatten([(0, 10, outer), (0, 10, inner)]) == [(0, 10, inner)]
    assert flow.flatten([(0, 10, outer), (10, 12, inner), (20, 20, outer)]) == [(0, 10, outer), (10, 12, inner)]


def test_nested_regions_and_an_empty_one_in_the_table():
    labels = [Label() for _ in range(7)]
    start, inner_start, inner_end, end, handler, inner_handler, nothing = labels
    fall = [Instr("LOAD_CONST", None), Instr("RETURN_VALUE")]
    regions = (
        Region(start, end, handler, 0, False),
        Region(inner_start, inner_end, inner_handler, 0, True),
        Region(nothing, end, inner_handler, 3, True),
    )
    items = [start, Instr("NOP"), inner_start, Instr("NOP"), inner_end, Instr("NOP"), nothing, end]
    code = body(*items, *fall, handler, *fall, inner_handler, *fall, regions=regions)
    raw = encode(code)
    rows = [*read_exception_table(raw.co_exceptiontable)]
    at = {2: rows[0].handler, 4: rows[1].handler, 6: rows[0].handler}
    assert [(row.start, row.end, row.depth, row.push_lasti) for row in rows] == [
        (2, 4, 0, False),
        (4, 6, 0, True),
        (6, 8, 0, False),
    ]
    assert [row.handler for row in rows] == [at[2], at[4], at[6]]
    covered = [region and region.handler for region in flow.regions_at(code)]
    assert [covered[code.body.index(label) + 1] for label in (start, inner_start, inner_end)] == [
        handler,
        inner_handler,
        handler,
    ]
