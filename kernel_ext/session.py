"""One notebook's `%%compile`: what its cells define becomes compiled; events of the compiler go to the cards."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kernel_ext import current, deferred, late
from kernel_ext.arguments import CellOptions, UsageFault, parse
from kernel_ext.card import Card, Passing
from kernel_ext.cells import Cell, Cells
from kernel_ext.check import checked
from kernel_ext.completer import Matcher
from kernel_ext.magics import Compile
from kernel_ext.preload import Preload
from kernel_ext.targets import Target, function_of, is_compiled
from kernel_ext.ticker import Ticker
from kernel_ext.transformer import CALL, TextStep, TreeStep
from kernel_ext.words import recompile_text

from IPython.core.error import UsageError  # isort: skip

if TYPE_CHECKING:
    from dynajit.report import Report

MANY = 3
"""Recompiles of one function from which on a line says so in the cell that calls it."""
REFUSED = "a generator or coroutine function: Python suspends and resumes it, so it runs as it is [DJ-S001]"


class Run:
    """One run of a `%%compile` cell. file: what its code objects call their file."""

    def __init__(self, cell: Cell, options: CellOptions, file: str) -> None:
        self.cell, self.options, self.file = cell, options, file
        self.targets: dict[str, Target] = {}
        self.refused: list[tuple[str, str]] = []


class Session:
    """What is installed in a shell, and what it needs to know. `start` and `stop` are exact opposites."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cells = Cells(shell)
        self.targets: dict[str, Target] = {}
        self.now: Run | None = None
        self.passing: Passing | None = None
        self.deferred: list[tuple[Any, CellOptions]] = []
        self.is_on = True
        self.switched: dict[str, Any] = {}
        self.magics = Compile(shell, self)
        self.text, self.tree = TextStep(self.cells.keep), TreeStep()
        self.matcher = Matcher(self)
        self.ticker = Ticker(self.refresh, self.progress)
        self.ticker.after = self.magics.progress_after
        self.preload = Preload()
        self._undo: list[Callable[[], object]] = []
        self._listening = False
        self._lock = threading.RLock()

    # ---- installing ----

    def start(self) -> None:
        shell = self.shell
        self._put(current.SESSIONS, self)
        self._put(shell.input_transformers_cleanup, self.text)
        self._put(shell.ast_transformers, self.tree)
        self._put(shell.Completer.custom_matchers, self.matcher.match)
        self._put_builtin(shell.builtin_trap)
        shell.register_magics(self.magics)
        self._undo.append(self.magics.unregister)
        shell.events.register("post_run_cell", self.after_cell)
        self._undo.append(lambda: shell.events.unregister("post_run_cell", self.after_cell))
        if self.magics.preload:
            self.preload.start()

    def stop(self) -> None:
        self.ticker.stop()
        self.preload.stop()
        while self._undo:
            with contextlib.suppress(ValueError, KeyError):
                self._undo.pop()()

    def _put(self, where: list[Any], what: Any) -> None:
        where.append(what)
        self._undo.append(lambda: where.remove(what))

    def _put_builtin(self, trap: Any) -> None:
        """A name that each cell sees, as `get_ipython` is. The cell that loads the extension has its names already."""
        trap.auto_builtins[CALL] = Hook(self)
        if trap._nested_level:
            trap.add_builtin(CALL, trap.auto_builtins[CALL])

        def undo() -> None:
            for names in (trap.auto_builtins, trap._orig_builtins, vars(builtins)):
                names.pop(CALL, None)

        self._undo.append(undo)

    def compiler(self) -> Any:
        """dynajit, with this session listening."""
        found = late.compiler()
        if not self._listening:
            self._listening = True
            self._undo.append(late.events().subscribe(self.hear))
            self._put(late.errors().PLACES, self.cells.place)
        self._settle(found)
        return found

    def _settle(self, dynajit: Any) -> None:
        """Compile what was only noted before, and give it its name."""
        pending, self.deferred = self.deferred, []
        for stand_in, options in pending:
            made = dynajit.compile(stand_in.__wrapped__, **options.compiler())
            stand_in.__deferred__.append(made)
            for target in self.targets.values():
                if target.made is stand_in:
                    target.made = made
            for name, value in tuple(self.shell.user_ns.items()):
                if value is stand_in:
                    self.shell.user_ns[name] = made

    # ---- a cell ----

    def begin(self, key: str, line: str, defined: Sequence[str], file: str) -> None:
        """The first line of a cell runs."""
        self.now = None
        try:
            options = parse(line, self.magics.view)
            missing = [name for name in options.names if name.partition(".")[0] not in defined]
            if missing:
                there = (
                    f"; it defines {', '.join(defined)}" if defined else ", which defines nothing that can be compiled"
                )
                raise UsageFault(f"there is no function or module {missing[0]!r} in this cell{there}")
            if options.compiler():
                self.compiler().compile(**options.compiler())
        except (UsageFault, ValueError) as error:
            raise UsageError(f"%%compile: {error}") from None
        cell = self.cells.run(key, self._number())
        self.now = Run(cell, options, file)

    def _number(self) -> int:
        """Of the cell that runs now: the shell counts on before it runs one."""
        return int(self.shell.execution_count) - 1

    def define(self, name: str, value: Any) -> Any:
        """What the name is bound to instead of `value`."""
        run = self.now
        if run is None or not self.is_on or (run.options.names and name not in run.options.names):
            return value
        if (
            inspect.isgeneratorfunction(value)
            or inspect.iscoroutinefunction(value)
            or inspect.isasyncgenfunction(value)
        ):
            run.refused.append((name, REFUSED))
            return value
        if late.is_module_class(value):
            return self._define_class(run, name, value)
        if late.is_module(value) and is_compiled(value):
            return value
        if not isinstance(value, FunctionType) and not late.is_module(value) and not is_compiled(value):
            return value
        return self._add(run, name, self._compile(run, value))

    def _define_class(self, run: Run, name: str, value: Any) -> Any:
        if isinstance(value.__dict__.get("forward"), FunctionType):
            value = self._compile(run, value)
            self._add(run, name, value, f"{name}.forward")
        return value

    def _compile(self, run: Run, value: Any) -> Any:
        if isinstance(value, FunctionType) and deferred.is_needed():
            made = deferred.stand_in(value, self.compiler)
            self.deferred.append((made, run.options))
            return made
        dynajit = self.compiler()
        if (
            run.options.force
            and (old := function_of(self.shell.user_ns.get(getattr(value, "__name__", "")))) is not None
        ):
            dynajit.reset(old)
        return dynajit.compile(value, **run.options.compiler())

    def _add(self, run: Run, name: str, made: Any, shown: str = "") -> Any:
        function = function_of(made)
        if function is None:
            return made
        target = Target(shown or name, made, function, run.cell, run.options, run=run)
        # the class of an instance may come from elsewhere: another cell, or a library
        if any(line for line in run.cell.lines) and function.__code__.co_filename == run.file:
            run.cell.files.add(function.__code__.co_filename)
            self.cells.defines(run.cell, function)
        for other in self.targets.values():
            if other.code is target.code and other.made is not made and other.name != target.name:
                # entries are kept with the code of a class: what serves one instance serves the other
                other.shared = f"shares its compiled code with {target.name}"
                target.shared = f"shares its compiled code with {other.name}"
        run.targets[target.name] = target
        self.targets[target.name] = target
        return checked(made, target, self.shell.user_ns) if run.options.check else made

    def after_cell(self, result: Any = None) -> None:
        """Cards for what the cell defined; news for the cards of other cells."""
        run, self.now = self.now, None
        self.ticker.clear()
        self._clear_passing()
        if run is not None:
            self.finish(run, failed=result is not None and not result.success)
        self.refresh(True)
        self._notice()
        if result is not None and not result.success:
            self._show_error(result.error_in_exec or result.error_before_exec)

    def finish(self, run: Run, failed: bool = False) -> None:
        """The cell has been run: show cards, then warm up."""
        if run.options.view != "none":
            for target in run.targets.values():
                if target.card is None and not (failed and target.heard == 0):
                    target.card = self._card(target)
                if target.card is not None:
                    self._show(target)
            for name, why in run.refused:
                nothing = Target(name, None, FunctionType(_nothing.__code__, {}), run.cell, run.options)
                self._card(nothing).line(f"not compiled: {why}")
        if not failed:
            for text in run.options.warm:
                self._warm(text)
        if run.options.out:
            self._bind(run)

    def _card(self, target: Target) -> Card:
        return Card(target, self.cells, not self.is_terminal(), self.magics.max_nodes)

    def _warm(self, text: str) -> None:
        try:
            exec(compile(text, "<--warm>", "exec"), self.shell.user_ns)
        except Exception as error:
            print(f"%%compile: --warm {text} failed: {type(error).__name__}: {error}")

    def _bind(self, run: Run) -> None:
        self.compiler()
        reports = [target.report or target.fresh_report() for target in run.targets.values()]
        self.shell.user_ns[run.options.out] = reports[0] if len(reports) == 1 else reports

    def is_terminal(self) -> bool:
        return not hasattr(self.shell, "kernel") and type(self.shell).__name__ == "TerminalInteractiveShell"

    def switch(self, on: bool) -> None:
        """Bind names to the plain functions, or to the compiled ones again."""
        self.is_on = on
        for target in self.targets.values():
            name, _, attribute = target.name.partition(".")
            made, plain = target.made, target.function
            if attribute and late.is_module_class(made):
                if not on:
                    self.switched.setdefault(target.name, made.__dict__["forward"])
                made.forward = self.switched.pop(target.name, plain) if on else plain
                continue
            now = self.shell.user_ns.get(name)
            if late.is_module(made):
                if on and target.name in self.switched:
                    made.__dict__["forward"] = self.switched.pop(target.name)
                elif not on and "forward" in made.__dict__:
                    self.switched[target.name] = made.__dict__.pop("forward")
            elif now is (plain if on else made):
                self.shell.user_ns[name] = made if on else plain

    def report_of(self, made: Any) -> Report | None:
        """The report of something that a cell compiled here."""
        function = function_of(made) if is_compiled(made) else None
        found = (target for target in self.targets.values() if function is not None and target.function is function)
        target = next(found, None)
        return target.fresh_report() if target is not None else None

    def touch(self, function: FunctionType | None, timed: str = "") -> None:
        """There is something new about a function, perhaps its speed."""
        for target in self.targets.values():
            if target.function is function:
                target.heard += 1
                target.timed = timed or target.timed

    # ---- events ----

    def hear(self, event: Any) -> None:
        """An event of the compiler, on the thread that compiles: it is only noted here."""
        for target in tuple(self.targets.values()):
            if target.code is event.code:
                target.heard += 1
                self.ticker.heard(target, event)

    def refresh(self, is_last: bool = False) -> None:
        """Bring cards up to date. From the ticker's thread while a cell runs, and once after each cell."""
        for target in tuple(self.targets.values()):
            heard = target.heard
            # entries that come back for an unchanged cell make no event, so who still waits is asked after each cell
            if target.card is None and not target.options.out:
                continue
            if target.shown == heard and not (is_last and target.is_waiting):
                continue
            try:
                self._show(target)
            except Exception:
                if is_last:
                    raise
                continue  # the compiler was at work on the same record: the next tick, or the end of the cell

    def _show(self, target: Target) -> None:
        heard = target.heard
        with self._lock:
            if target.card is None and not target.is_deferred:
                target.fresh_report()
            elif target.card is not None:
                target.card.report()
        target.shown = heard
        self._note_inlined(target)
        if target.run is not None and target.options.out in self.shell.user_ns:
            self._bind(target.run)

    def _note_inlined(self, source: Target) -> None:
        """A helper that others inline is never called by itself: its card says where it is."""
        places = (
            {node.where for graph in source.report.graphs for node in graph.nodes if node.where}
            if source.report
            else set()
        )
        for target in self.targets.values():
            if target is source or target.card is None or target.heard or target.inlined:
                continue
            file, lines = target.code.co_filename, {line for _, _, line in target.code.co_lines() if line}
            if any(where.rpartition(":")[0] == file and int(where.rpartition(":")[2]) in lines for where in places):
                target.inlined = f"captured as a part of {source.name}"
                target.card.line(target.inlined, "inlined")

    def _show_error(self, error: BaseException) -> None:
        """A compile error belongs on the card of the function as well."""
        file, _, line = getattr(error, "where", "").rpartition(":")
        for target in self.targets.values():
            codes = {number for _, _, number in target.code.co_lines() if number}
            if target.card is not None and file == target.code.co_filename and line.isdigit() and int(line) in codes:
                target.card.line(f"not compiled, line {line}: {getattr(error, 'what', error)}", "failed")

    def progress(self, target: Target, text: str, seconds: float) -> None:
        """A compile that takes long says so on the card of its function, and in the cell that waits for it."""
        if target.options.view == "none" or self.is_terminal():
            return
        with self._lock:
            if target.card is None:
                target.card = self._card(target)
            target.card.line(text, "inlined")
            if seconds > 1 and target.cell.number != self._number() and self.passing is None:
                self.passing = Passing(f"compiling {target.name} … (report under In[{target.cell.number}])")

    def _clear_passing(self) -> None:
        with self._lock:
            passing, self.passing = self.passing, None
            if passing is not None:
                passing.clear()

    def _notice(self) -> None:
        """A function that is compiled again and again is worth a line where it is called."""
        if self.magics.notice == "never":
            return
        for target in self.targets.values():
            again = len(target.report.recompiles) if target.report is not None else 0
            if again >= MANY and again > target.noticed and target.report is not None:
                target.noticed = again
                print(recompile_text(target.report))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """For a cell that is not run by the shell: what comes after a cell comes here."""
        before = self.now
        failed = True
        try:
            yield
            failed = False
        finally:
            run, self.now = self.now, before
            if run is not None and run is not before:
                self.finish(run, failed)
                self.refresh(True)


def _nothing() -> None:
    pass


def _mend_first_line(filename: str, line: str) -> None:
    """Tracebacks show lines of the transformed text: the first one reads as it was written."""
    found = linecache.cache.get(filename)
    if found is not None and len(found) > 2 and found[2] and CALL in found[2][0]:
        found[2][0] = f"# %%compile {line}".rstrip() + "\n"


class Hook:
    """What the transformed cell calls: `__compile_cell__(key, line, names)` first, then one call a definition."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self, key: str, line: str, defined: Sequence[str] = ()) -> None:
        __tracebackhide__ = True
        file = sys._getframe(1).f_code.co_filename
        _mend_first_line(file, line)
        self._session.begin(key, line, defined, file)

    def function(self, value: Any) -> Any:
        return self._session.define(getattr(value, "__name__", ""), value)

    def klass(self, value: Any) -> Any:
        return self._session.define(getattr(value, "__name__", ""), value)

    def value(self, name: str, is_lambda: bool, value: Any) -> Any:
        if is_lambda or late.is_module(value):
            return self._session.define(name, value)
        return value
