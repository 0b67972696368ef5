"""The tabs of a card: each file registers one, a function from a report to HTML."""

from kernel_ext.panels import graph as _graph
from kernel_ext.panels import guards as _guards
from kernel_ext.panels import kernels as _kernels
from kernel_ext.panels import passes as _passes
from kernel_ext.panels import source as _source
from kernel_ext.panels import timeline as _timeline
from kernel_ext.panels.table import Panel, panel, panels

__all__ = ["Panel", "panel", "panels"]

del _source, _graph, _guards, _kernels, _timeline, _passes  # imported for the rows they add to the table
