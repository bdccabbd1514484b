"""State that a release has written can be read by this one, or is refused for its version."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cases import assert_same, rows
from tests.golden import states
from tests.golden.states import Saved

import hydrophone
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.since import SinceKernel
from hydrophone.errors import StateVersionError
from hydrophone.model.kernel import Kernel
from hydrophone.ops.aggregates.tumble import FinalTumbleKernel, PartialTumbleKernel
from hydrophone.ops.filters.fir import FirKernel

IN_NO_CHECKPOINT = {PartialTumbleKernel, FinalTumbleKernel, SinceKernel}
"""The two levels of a tumble in plans by shards, and the gate of a fresh subscription to a graph."""


def goes_on(file: Path, saved: Saved) -> bool:
    """Whether a run goes on as it did; only an older version of the file's own kernel may be refused."""
    kernel, _, version = file.stem.rpartition("-")
    try:
        found = saved.finish()
    except StateVersionError:
        if int(version) >= states.versions(saved.pipeline())[kernel]:
            raise
        return False
    assert found.schema == saved.rest.schema
    assert_same(rows(found), rows(saved.rest), states.cases()[saved.case].tolerance)
    return True


@pytest.mark.parametrize("file", sorted(states.FOLDER.glob("*.zip")), ids=lambda f: f.stem)
def test_runs_go_on_from_a_golden_state(file: Path) -> None:
    for saved in states.read(file):
        goes_on(file, saved)


def kernels(base: type[Kernel] = Kernel) -> set[type[Kernel]]:
    """All kernels of the package, their bases too; those of benchmarks and applications are users' kernels."""
    ours = (k for k in base.__subclasses__() if k.__module__.startswith("hydrophone."))
    return {base}.union(*(kernels(k) for k in ours if k.__module__.split(".")[1] not in ("apps", "bench")))


def test_every_kernel_with_state_has_a_file_of_its_version() -> None:
    """Of all kernels that there are: one that no case runs is found too."""
    for package in ("ops", "engine"):
        for module in pkgutil.walk_packages([f"{hydrophone.__path__[0]}/{package}"], f"hydrophone.{package}."):
            importlib.import_module(module.name)
    pipelines = [Pipeline(states.PLANS[plan](case).roots) for plan in states.PLANS for case in states.cases_of(plan)]
    ran = {type(s.kernel) for p in pipelines for s in p.stations.values() if s.kernel is not None}
    bases = {k for k in kernels() if k.__subclasses__()}
    assert kernels() - ran - bases == IN_NO_CHECKPOINT - ran, "a kernel that no case runs"
    assert not {file for p in pipelines for file in states.lacking(p)}, "python -m tests.golden.make states"
    with_state = {name for p in pipelines for name in states.versions(p)}
    assert {f.stem.rpartition("-")[0] for f in states.FOLDER.glob("*.zip")} == with_state


def test_a_new_version_refuses_the_old_state_and_asks_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = states.file_of("FirKernel", FirKernel.VERSION)
    saved = states.read(file)[0]
    assert goes_on(file, saved)
    monkeypatch.setattr(FirKernel, "VERSION", FirKernel.VERSION + 1)
    assert not goes_on(file, saved)
    assert states.lacking(saved.pipeline()) == [states.file_of("FirKernel", FirKernel.VERSION).name]
    with pytest.raises(StateVersionError, match=r"fir: the state has version 1"):
        goes_on(states.file_of("SosKernel", 1).with_stem("PlaceSamples-1"), saved)


def test_other_rows_than_the_golden_ones_fail() -> None:
    file = states.file_of("FirKernel", FirKernel.VERSION)
    saved = states.read(file)[0]
    assert len(saved.rest)
    with pytest.raises(AssertionError, match="not wanted"):
        goes_on(file, replace(saved, rest=saved.rest.slice(1)))
