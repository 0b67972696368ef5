"""The printed form of a body is stable."""

from bodies import at_line, body

from dynajit.bytecode import Code, Instr, Label, Region, decode, encode, listing

EXPECTED = """\
       RESUME                   0
    3  LOAD_FAST                'x'
L1:
       FOR_ITER                 -> L3
    4  BINARY_OP                '+'
       LOAD_CONST               None
       CALL                     (1, ('key',))
L2:
       JUMP                     -> L1
L3:
    3  LOAD_CONST               <code inner>
       RETURN_VALUE
L4:
       RERAISE                  0
region L1..L2 -> L4, depth 1, lasti
region L2..L3 -> L4, depth 0"""


def made() -> Code:
    def inner():
        pass

    loop, part, done, handler = (Label() for _ in range(4))
    return body(
        Instr("LOAD_FAST", "x", position=at_line(3)),
        loop,
        Instr("FOR_ITER", target=done, position=at_line(3)),
        Instr("BINARY_OP", "+", position=at_line(4)),
        Instr("LOAD_CONST", None),
        Instr("CALL", (1, ("key",)), position=at_line(4)),
        part,
        Instr("JUMP", target=loop, position=at_line(4)),
        done,
        Instr("LOAD_CONST", inner.__code__.replace(co_qualname="inner"), position=at_line(3)),
        Instr("RETURN_VALUE", position=at_line(3)),
        handler,
        Instr("RERAISE", 0),
        regions=(Region(loop, part, handler, 1, True), Region(part, done, handler, 0, False)),
        args="x",
    )


def test_listing():
    assert listing(made()) == EXPECTED


def branches(x, y):
    if x and not y:
        x += 1
    return x[1:], (x is y) or y not in x


BRANCHES = """\
{0}  RESUME                   0
{1}  LOAD_FAST                'x'
       POP_JUMP_IF_FALSE        -> L1
       LOAD_FAST                'y'
       POP_JUMP_IF_TRUE         -> L1
{2}  LOAD_FAST                'x'
       LOAD_CONST               1
       BINARY_OP                '+='
       STORE_FAST               'x'
L1:
{3}  LOAD_FAST                'x'
       LOAD_CONST               1
       LOAD_CONST               None
       BUILD_SLICE              2
       BINARY_SUBSCR
       LOAD_FAST                'x'
       LOAD_FAST                'y'
       IS_OP                    0
       COPY                     1
       POP_JUMP_IF_TRUE         -> L2
       POP_TOP
       LOAD_FAST                'y'
       LOAD_FAST                'x'
       CONTAINS_OP              1
L2:
       BUILD_TUPLE              2
       RETURN_VALUE"""


def test_plain_code_is_the_same_on_all_versions():
    first = branches.__code__.co_firstlineno
    lines = [f"{first + number:>5}" for number in range(4)]
    assert listing(decode(branches.__code__)) == BRANCHES.format(*lines)
    assert listing(decode(encode(decode(branches.__code__)))) == BRANCHES.format(*lines)
