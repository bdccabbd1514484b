"""The benchmarks by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from hydrophone.bench.harness import Case, Turns

BENCHES = {
    "local_engine": "local_engine:cases",
    "catalogue": "catalogue:cases",
    "grouped_batch": "grouped_batch:cases",
    "grouped_streaming": "grouped_streaming:cases",
    "hot_key": "hot_key:cases",
    "relational": "relational:cases",
    "lake": "lake:cases",
    "many_keys": "many_keys:cases",
    "asof": "asof:cases",
    "shj_snj": "shj_snj:cases",
    "long_fir": "long_fir:cases",
    "latency": "latency:cases",
    "cold_start": "cold_start:cases",
    "vibration": "vibration:cases",
    "soccer": "soccer:cases",
    "frames_memory": "soccer:frames_memory",
    "applications": "applications:cases",
    "trill_q1": "trill:q1",
    "trill_q2": "trill:q2",
    "trill_q3": "trill:q3",
    "trill_q4": "trill:q4",
    "trill_q5": "trill:q5",
    "oop_skew": "oop:skew",
    "oop_tumbling_join": "oop:tumbling_join",
    "oop_band_join": "oop:band_join",
    "oop_late_join": "oop:late_join",
    "oop_sliding": "oop:sliding",
    "oop_marks": "oop:marks",
    "oop_joint": "joint:cases",
    "oop_throughput": "smoothing:cases",
    "oop_flush": "flush:cases",
    "oop_combine": "combine:cases",
    "oop_buffered": "buffered:cases",
    "small_batches": "small_batches:cases",
    "trill_costs": "trill_more:costs",
    "trill_batches": "trill_more:batches",
    "trill_threads": "trill_more:threads",
    "passchain": "engine_chain:passchain",
    "enginebench": "engine_chain:enginebench",
    "schedulers": "offered_load:cases",
    "pipes_decouple": "pipes:decouple",
    "pipes_di": "pipes:di",
    "pipes_memory": "pipes:memory",
    "pipes_hmts": "pipes:hmts",
    "rolling": "overlap:rolling",
    "sliding_dft": "overlap:sliding_dft",
    "sharing": "sharing:cases",
    "ring": "ring:cases",
    "shedding": "shedding:cases",
}
"""By name the module and the function that makes the cases."""


def load(name: str) -> Callable[[bool], Iterator[Case | Turns]]:
    """The function that makes a benchmark's cases; benchmarks are imported when they are run, because some need Spark."""
    module, _, function = BENCHES[name].partition(":")
    found: Callable[[bool], Iterator[Case | Turns]] = getattr(
        importlib.import_module(f"hydrophone.bench.{module}"), function
    )
    return found


def describe(name: str) -> str:
    """One line on a benchmark: the first of what documents it."""
    module, _, function = BENCHES[name].partition(":")
    found = importlib.import_module(f"hydrophone.bench.{module}")
    doc = (found if function == "cases" else getattr(found, function)).__doc__ or ""
    # A module's first line begins with the name, for who reads the file.
    return str(doc).strip().splitlines()[0].removeprefix(f"`{name}`: ")
