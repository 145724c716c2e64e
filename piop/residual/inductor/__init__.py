"""Inductor, torch's compiler, given a whole training step at once."""

from piop.residual.inductor.background import BackgroundCompilation
from piop.residual.inductor.cache import fresh_cache, graph_digest, is_cached, note_cached
from piop.residual.inductor.compilation import (
    CompiledGraph,
    FlatFunction,
    compile_graph,
    decompositions,
    load_graph,
    require_compiler,
)

__all__ = [
    "BackgroundCompilation",
    "CompiledGraph",
    "FlatFunction",
    "compile_graph",
    "decompositions",
    "fresh_cache",
    "graph_digest",
    "is_cached",
    "load_graph",
    "note_cached",
    "require_compiler",
]
