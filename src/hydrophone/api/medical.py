"""Readers of medicine's files: ``hp.read.edf(...)``, ``hp.read.wfdb(...)`` and its annotations."""

from __future__ import annotations

from typing import Literal

from hydrophone.api.handles import Stream, UniformSignal
from hydrophone.api.recordings import clock_of_start, recordings, stated_period
from hydrophone.api.sources import Paths, path_text, read_data
from hydrophone.arguments import public
from hydrophone.connect.edf import EdfData
from hydrophone.connect.recording import Names
from hydrophone.connect.wfdb import WfdbAnnotations, WfdbData
from hydrophone.errors import ParameterError
from hydrophone.model.progress import Policy
from hydrophone.model.time import Duration, Instant, instant
from hydrophone.plan.types import Clock


@public
def read_edf(
    path: Paths,
    *,
    pattern: str | None = None,
    rate: Duration | None = None,
    dtype: Literal["float64", "int32"] = "float64",
    clock: Clock = "timestamp",
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Signals of EDF, EDF+, BDF and BDF+ files as uniform signals, keyed by ``file`` and ``channel`` (the label).

    Every signal has the rate that its header says. Times are those of the header, which has no zone. Files with gaps between their
    records (EDF+D) are refused.

    Parameters
    ----------
    path : str or list of str
        A file, a folder (every ``*.edf`` and ``*.bdf`` under it), a pattern, or a list of these.
    pattern : str, optional
        As in `read_wav`; the start is that of the header.
    rate : str, optional
        The rate that all signals have; another is an error. With it there need be no file yet.
    dtype : str
        "float64" are physical values: with ``gain = (physical max - physical min) / (digital max - digital min)`` a stored integer is
        ``gain * (physical max / gain - digital max + integer)``, in this order, as EDFlib has it. "int32" are the stored integers.
    clock, progress, name :
        As in `read_wav`.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, pyedflib, tempfile
    >>> path = tempfile.mkdtemp() + "/a.edf"
    >>> writer = pyedflib.EdfWriter(path, 1)
    >>> writer.setSignalHeaders([pyedflib.highlevel.make_signal_header("ECG", sample_frequency=4)])
    >>> writer.writeSamples([np.array([0.0, 100.0, 200.0, -200.0])])
    >>> writer.close()
    >>> hp.read.edf(path)
    <UniformSignal(float64, every 250ms) by file, channel>
    >>> hp.read.edf(path, dtype="int32").to_arrow()["value"].to_pylist()
    [0, 16383, 32767, -32768]
    """
    if dtype not in ("float64", "int32"):
        raise ParameterError(f"read.edf: dtype must be float64 or int32, got {dtype!r}")
    data = EdfData(path_text(path, "read.edf"), Names(pattern=pattern), stated_period(rate), clock, dtype)
    return recordings(data, progress, name)


@public
def read_wfdb(
    path: Paths,
    *,
    start: Instant = 0,
    pattern: str | None = None,
    rate: Duration | None = None,
    clock: Clock | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Signals of WFDB records (PhysioNet's format) as uniform signals, keyed by ``file`` (the record) and ``channel``.

    Values are in physical units; those that a record marks as invalid are NaN.

    Parameters
    ----------
    path : str or list of str
        A header (``100.hea``), a folder (every ``*.hea`` under it), a pattern, or a list of these. The files of samples lie beside it;
        into a stream the header comes last.
    start : instant
        When a record starts whose header has no date.
    pattern, rate, clock, progress, name :
        As in `read_wav`.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, tempfile, wfdb
    >>> folder = tempfile.mkdtemp()
    >>> wfdb.wrsamp("100", fs=360, units=["mV"], sig_name=["MLII"], p_signal=np.array([[0.5], [-1.0]]), fmt=["16"], write_dir=folder)
    >>> hp.read.wfdb(folder)
    <UniformSignal(float64, 360 Hz) by file, channel>
    """
    times = clock or clock_of_start(start, pattern)
    names = Names(instant(start), pattern)
    return recordings(WfdbData(path_text(path, "read.wfdb"), names, stated_period(rate), times), progress, name)


@public
def read_wfdb_annotations(
    path: Paths,
    extension: str = "atr",
    *,
    start: Instant = 0,
    pattern: str | None = None,
    clock: Clock | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> Stream:
    """Annotations of WFDB records as intervals: columns ``symbol`` and ``note``, keyed by ``file`` (the record).

    A rhythm (``+``), a change of quality (``~``) or of ST or T (``s``, ``T``) holds until the next of its kind, or the end of the
    record. All others, beats above all, last one sample.

    Parameters
    ----------
    path : str or list of str
        A file of annotations, a folder, a pattern or a list of these. The header of the record lies beside it.
    extension : str
        The annotator: the suffix of the files.
    start, pattern, clock :
        As in `read_wfdb`: give both the same, and times agree.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, tempfile, wfdb
    >>> folder = tempfile.mkdtemp()
    >>> wfdb.wrsamp("100", fs=250, units=["mV"], sig_name=["MLII"], p_signal=np.zeros((10, 1)), fmt=["16"], write_dir=folder)
    >>> wfdb.wrann("100", "atr", np.array([1, 4, 6]), ["+", "N", "+"], aux_note=["(N", "", "(AFIB"], fs=250, write_dir=folder)
    >>> hp.read.wfdb_annotations(folder).to_arrow().to_pydict()["end"]
    [24000000, 20000000, 40000000]
    """
    data = WfdbAnnotations(
        path_text(path, "read.wfdb_annotations"),
        Names(instant(start), pattern),
        extension.removeprefix("."),
        clock or clock_of_start(start, pattern),
    )
    return read_data(data, key=data.names.columns, time="time", end="end", progress=progress, name=name)
