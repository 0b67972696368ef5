"""`%compile`, `%%compile` as a real cell magic, and how a report is shown when it is the value of a cell."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Enum, Float, Int

from kernel_ext import late
from kernel_ext.arguments import VIEWS, UsageFault, split
from kernel_ext.bench import Way, bench, eagerly, plain
from kernel_ext.check import check
from kernel_ext.commands import (
    cache_text,
    chosen_kernels,
    edit_text,
    graph_text,
    number_of,
    options_of,
    parsed_call,
    save_graph,
    save_kernels,
)
from kernel_ext.differences import diff_text
from kernel_ext.forms import live_html, report_of, to_dot, to_html
from kernel_ext.subcommands import SUBCOMMANDS
from kernel_ext.targets import Target, function_of, is_compiled
from kernel_ext.units import count
from kernel_ext.words import guard_text, kernel_text, table_text, why_text

if TYPE_CHECKING:
    from dynajit.report import KernelReport, Report
    from kernel_ext.session import Session


@magics_class
class Compile(Magics):  # type: ignore[misc]
    """Settings of the extension: `%config Compile.view = "open"`."""

    view = Enum(VIEWS, "card", help="What stands under a %%compile cell.").tag(config=True)
    preload = Bool(True, help="Load the slow parts of torch on a thread when the extension is loaded.").tag(config=True)

    notice = Enum(("auto", "never"), "auto", help="Whether a cell says that it compiled a function many times.").tag(
        config=True
    )
    progress_after = Float(0.25, help="Seconds that compiling may take in silence.").tag(config=True)
    max_nodes = Int(40, help="How many boxes of a graph are open at first.").tag(config=True)

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @no_var_expand  # type: ignore[untyped-decorator]
    @line_cell_magic  # type: ignore[untyped-decorator]
    def compile(self, line: str = "", cell: str | None = None) -> Any:
        """Compile PyTorch code, and see what became of every line.

        %%compile [NAME ...] [options]      above a cell: its functions, lambdas and nn.Modules become compiled.

          NAME ...             only these (as usual: everything that the cell defines at its top level)
          -b, --backend B      auto (as usual) | native | eager, or another that is installed
          -m, --mode M         default | fast (start at once, build kernels behind) | max (faster, other rounding)
          -d, --dynamic D      sizes are symbolic from the second value on (auto), at once (on), never (off)
          -F, --fullgraph      a graph break is an error
          -w, --warm EXPR      run EXPR after the cell, so that compiling happens now (may be repeated)
          -c, --check          compare the first call with eager
          -v, --view V         card (as usual) | open | text | widget | none
          -q, --quiet          the same as --view none
          -t, --tab T          source (as usual) | graph | guards | kernels | timeline | passes
          -o, --out NAME       bind the report to NAME
          -f, --force          forget what was compiled before

        %compile                a table of everything that was compiled
        %compile show f         the report of f, here
        %compile why f          why f was compiled again, broke or runs eagerly, and what to do about it
        %compile explain f      what is known of f; runs nothing
        %compile explain f(x)   call f once under a compiler of its own, and show what is captured
        %compile bench f(x)     eager and compiled in turns, warmed up: medians, spread, kernels
                                [-n calls a round] [-r rounds] [-o NAME for the result] [--torch for torch.compile, too]
        %compile check f(x)     eager and compiled on copies: results, writes, printed text, errors, random numbers
        %compile guards f       what must hold for the compiled code to be used
        %compile kernels f [k0] the text of the generated kernels, or of one
                                [--lang c | triton] [--save DIR] [--edit: a cell with a copy to change and run]
                                [--ahead sm_90: registers and memory on a GPU that need not be here]
        %compile graph f        the captured graphs as Python text
                                [--level module | line | op | kernel] [--pass NAME] [--save x.svg | x.dot | x.html]
        %compile diff f A B     what differs between two entries (0, 1, ...) or passes (captured, lowered, ...)
        %compile dot f [FILE]   the first graph in DOT, for Graphviz
        %compile export f FILE  the report as one HTML file
        %compile cache          where kernels are kept, and how much they take; cache ls | path | clear
        %compile reset [f]      forget what was compiled, of f or of everything
        %compile off | on       plain Python for the whole session, and back

        Settings: %config Compile.view = "open", .progress_after, .max_nodes, .notice, .preload

        The percent sign of %compile is needed: `compile` alone is Python's own function.
        """
        __tracebackhide__ = True
        if cell is not None:
            return self._run_cell(line, cell)
        try:
            return self._command(line)
        except UsageFault as error:
            raise UsageError(f"%compile: {error}") from None

    @no_var_expand  # type: ignore[untyped-decorator]
    @cell_magic  # type: ignore[untyped-decorator]
    def compile_kernel(self, line: str, cell: str) -> None:
        """Run a C kernel by the text of this cell, until `%compile reset`.

        %%compile_kernel f k0        above the text; `%compile kernels f k0 --edit` writes such a cell

        `%compile check f(x)` and `%compile bench f(x)` say what became of it.
        """
        __tracebackhide__ = True
        try:
            words = split(line)
            if len(words) != 2:
                raise UsageFault("name a function and a kernel: %%compile_kernel f k0")
            (kernel, *_) = chosen_kernels(self.report(words[0]), words[1], "c") or (None,)
            if kernel is None:
                raise UsageFault(f"{words[1]} has no text in C that runs here")
            made = self._compiled(words[0])
            graphs = self.session.compiler().edit_kernel(made, kernel.name, cell)
        except UsageFault as error:
            raise UsageError(f"%%compile_kernel: {error}") from None
        except late.errors().ToolchainError as error:
            raise UsageError(f"%%compile_kernel: nothing is changed.\n{error.output.strip()}") from None
        where = count(graphs, "graph")
        print(f"{words[1]} of {words[0]} runs by this text now, in {where}; %compile reset {words[0]} undoes it")
        self.session.touch(function_of(made))

    # ---- the cell ----

    def _run_cell(self, line: str, cell: str) -> Any:
        """When the cell is not the shell's own, as below `%%time`: compiled and run here, its last value returned."""
        __tracebackhide__ = True
        shell = self.shell
        if not cell.strip():
            raise UsageError("%%compile: the cell is empty")
        text = shell.transform_cell(f"%%compile {line}\n{cell}")
        name = shell.compile.cache(text, shell.execution_count)
        tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with self.session.running():
            exec(shell.compile(tree, name, "exec"), shell.user_ns)
            if last is None:
                return None
            value = eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
        return None if text.rstrip().endswith(";") else value

    # ---- the line ----

    def _command(self, line: str) -> Any:
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if not word:
            print(table_text(self.rows()))
            return None
        if word not in SUBCOMMANDS:
            close = difflib.get_close_matches(word, SUBCOMMANDS, 1)
            guess = f"; did you mean {close[0]}?" if close else f": use one of {', '.join(SUBCOMMANDS)}"
            raise UsageFault(f"there is no command {word!r}{guess}")
        return getattr(self, f"_do_{word}")(rest)

    def _do_show(self, rest: str) -> None:
        self._show(self.report(rest))

    def _do_why(self, rest: str) -> None:
        print(why_text(self.report(rest)))

    def _do_guards(self, rest: str) -> None:
        print(guard_text(self.report(rest)))

    def _do_kernels(self, rest: str) -> None:
        words, options = options_of(rest, {"--lang": True, "--save": True, "--edit": False, "--ahead": True})
        report = self.report(" ".join(words[:1]))
        chosen = chosen_kernels(report, words[1] if len(words) > 1 else "", options.get("--lang", ""))
        if "--save" in options:
            print("\n".join(save_kernels(chosen, options["--save"])))
        elif "--ahead" in options:
            self._show_resources(words[0], chosen, options["--ahead"])
        elif "--edit" in options:
            self.shell.set_next_input(edit_text(report, words, chosen))
        else:
            print(kernel_text(report, chosen))

    def _show_resources(self, name: str, chosen: Sequence[KernelReport], target: str) -> None:
        """What the Triton text becomes on a GPU that need not be here."""
        made = self._compiled(name)
        try:
            found = self.session.compiler().resources(made, target, {kernel.name for kernel in chosen})
        except (ValueError, late.errors().ToolchainError) as error:
            raise UsageFault(getattr(error, "output", str(error))) from None
        print("\n".join(f"{kernel}: {row}" for kernel, rows in found.items() for row in rows) or "no Triton text")
        self.session.touch(function_of(made))

    def _do_graph(self, rest: str) -> None:
        words, options = options_of(rest, {"--level": True, "--pass": True, "--save": True})
        report = self.report(" ".join(words[:1]))
        if "--save" in options:
            save_graph(report, options["--save"])
        else:
            print(graph_text(report, options.get("--level", ""), options.get("--pass", "")))

    def _do_diff(self, rest: str) -> None:
        words = split(rest)
        if len(words) != 3:
            raise UsageFault("diff needs a function and two entries or passes: %compile diff f 0 1")
        print(diff_text(self.report(words[0]), words[1], words[2]))

    def _do_bench(self, rest: str) -> None:
        words, options = options_of(rest, {"-n": True, "-r": True, "-o": True, "--torch": False})
        text = " ".join(words)
        call = parsed_call(text, self.shell.user_ns, "bench")
        ways: dict[str, Way] = {"eager": eagerly(call), "dynajit": Way(call)}
        if "--torch" in options:
            theirs = late.torch().compile(plain(call.function))
            ways["torch.compile"] = Way(dataclasses.replace(call, function=theirs))
        calls = number_of(options, "-n", 1) if "-n" in options else None
        result = bench(text, ways, calls, number_of(options, "-r", 7))
        report = self.session.compiler().profile(call.function)(*call.args, **call.kwargs)
        kernels = {kernel.name: kernel.measured for kernel in report.kernels if kernel.launched and kernel.measured}
        result = dataclasses.replace(result, kernels=kernels)
        if "-o" in options:
            self.shell.user_ns[options["-o"]] = result
        bundle = {"text/plain": str(result)}
        if not self.session.is_terminal():
            bundle["text/html"] = result._repr_html_()
        self.shell.display_pub.publish(bundle)
        self.session.touch(function_of(call.function), f"{result.ratio:.2f} times the speed of eager for {text}")

    def _do_check(self, rest: str) -> None:
        call = parsed_call(rest, self.shell.user_ns, "check")
        said = check(call.function, plain(call.function), call.args, call.kwargs)
        same = all(line.startswith("✓") for line in said)
        print("\n".join([f"{rest.strip()}: {'the same as eager' if same else 'NOT the same as eager'}", *said]))

    def _do_cache(self, rest: str) -> None:
        print(cache_text(self.session.compiler(), rest.strip()))

    def _do_dot(self, rest: str) -> None:
        name, _, file = rest.partition(" ")
        report = self.report(name)
        if not report.graphs:
            raise UsageFault(f"{name} has no graph yet")
        text = to_dot(report)
        if file.strip():
            with open(file.strip(), "w", encoding="utf-8") as out:
                out.write(text)
        else:
            print(text)

    def _do_export(self, rest: str) -> None:
        words = split(rest)
        if len(words) != 2:
            raise UsageFault("export needs a function and a file: %compile export f report.html")
        to_html(self.report(words[0]), words[1])

    def _do_reset(self, rest: str) -> None:
        dynajit = self.session.compiler()
        dynajit.reset(self._compiled(rest) if rest else None)
        for target in self.session.targets.values():
            target.heard += 1
        self.session.refresh(True)

    def _do_off(self, rest: str) -> None:
        self.session.switch(False)

    def _do_on(self, rest: str) -> None:
        self.session.switch(True)

    def _do_explain(self, rest: str) -> None:
        """`explain f(x, y)`, or `explain f` for what is known without running it."""
        if not rest.strip():
            raise UsageFault("explain needs a function or a call: %compile explain f, or explain f(x, y)")
        try:
            tree = ast.parse(rest.strip(), mode="eval").body
        except SyntaxError:
            raise UsageFault(f"{rest!r} is not an expression: use explain f, or explain f(x, y)") from None
        if not isinstance(tree, ast.Call):
            self._show(self.report(rest))
            return
        namespace = dict(self.shell.user_ns)
        namespace["__explain__"] = self.session.compiler().explain
        tree.func = ast.Call(ast.Name("__explain__", ast.Load()), [tree.func], [])
        code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<explain>", "eval")
        self._show(eval(code, namespace))

    # ---- helpers ----

    def names(self) -> list[str]:
        """Compiled things that have a name now."""
        known = {target.function for target in self.session.targets.values()}
        found = list(self.session.targets)
        for name, value in tuple(self.shell.user_ns.items()):
            if not name.startswith("_") and is_compiled(value) and function_of(value) not in known:
                found.append(name)
        return found

    def rows(self) -> list[Report]:
        return [self.report(name) for name in self.names()]

    def _compiled(self, text: str) -> Any:
        if not text:
            names = self.names()
            raise UsageFault(f"which one? Compiled: {', '.join(names)}" if names else "nothing is compiled yet")
        target = self.session.targets.get(text)
        if target is not None:
            return target.made
        with contextlib.suppress(Exception):
            value = eval(text, self.shell.user_ns)
            if is_compiled(value):
                return value
        close = difflib.get_close_matches(text, self.names(), 1)
        raise UsageFault(f"{text} is not compiled" + (f"; did you mean {close[0]}?" if close else ""))

    def report(self, text: str) -> Report:
        target: Target | None = self.session.targets.get(text)
        if target is not None:
            return target.fresh_report()
        return report_of(self._compiled(text))

    def _show(self, report: Report) -> None:
        bundle: dict[str, str] = {"text/plain": str(report)}
        if not self.session.is_terminal():
            bundle["text/html"] = live_html(report)
        self.shell.display_pub.publish(bundle)

    def unregister(self) -> None:
        for kind, name in (("line", "compile"), ("cell", "compile"), ("cell", "compile_kernel")):
            self.shell.magics_manager.magics[kind].pop(name, None)
        self.shell.magics_manager.registry.pop(type(self).__name__, None)
        with contextlib.suppress(ValueError):
            self.shell.configurables.remove(self)
