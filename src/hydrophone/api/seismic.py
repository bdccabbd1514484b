"""Readers of seismology's files: ``hp.read.miniseed(...)`` and ``hp.read.sac(...)``."""

from __future__ import annotations

from hydrophone.api.handles import UniformSignal
from hydrophone.api.recordings import recordings, stated_period
from hydrophone.api.sources import Paths, path_text
from hydrophone.arguments import public
from hydrophone.connect.miniseed import MiniseedData
from hydrophone.connect.recording import Names
from hydrophone.connect.sac import SacData
from hydrophone.model.progress import Policy
from hydrophone.model.time import Duration
from hydrophone.plan.types import Clock


@public
def read_miniseed(
    path: Paths,
    *,
    rate: Duration | None = None,
    snap: bool = False,
    clock: Clock = "zoned",
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Samples of MiniSEED files (versions 2 and 3) as uniform signals, keyed by ``network``, ``station``, ``location`` and ``channel``.

    A record goes on from the one before it of its channel where it starts no more than half a period off, as libmseed has it.
    Other gaps and overlaps stay: a gap is missing samples, and where samples of a channel overlap, an operator that needs one value at
    a time says so. Integers (Steim 1 and 2 too) and floats are those of the file, bit by bit.

    Parameters
    ----------
    path : str or list of str
        A file, a folder (every ``*.mseed``, ``*.miniseed``, ``*.ms`` under it), a pattern, or a list of these.
    rate : str, optional
        The rate that all channels have; another is an error. With it there need be no file yet.
    snap : bool
        Move every run to the nearest instant at which whole periods have passed since 1970, at most half a sample away. The runs of a
        channel must lie on one grid; clocks that drift between files do not keep that without it.
    clock, progress, name :
        As in `read_wav`; times are UTC.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, tempfile, pymseed
    >>> record = pymseed.MS3Record()
    >>> record.sourceid, record.samprate, record.reclen = "FDSN:XX_STA__B_H_Z", 20.0, 512
    >>> record.set_starttime_str("2026-01-01T00:00:00Z")
    >>> record.encoding = pymseed.DataEncoding.STEIM2
    >>> path = tempfile.mkdtemp() + "/a.mseed"
    >>> with open(path, "wb") as file:
    ...     for part in record.generate(data_samples=[3, 1, 2], sample_type="i"):
    ...         _ = file.write(part)
    >>> hp.read.miniseed(path)
    <UniformSignal(int32, every 50ms) by network, station, location, channel>
    >>> hp.read.miniseed(path).to_arrow()["value"].to_pylist()
    [3, 1, 2]
    """
    data = MiniseedData(path_text(path, "read.miniseed"), Names(), stated_period(rate), clock, snap)
    return recordings(data, progress, name)


@public
def read_sac(
    path: Paths,
    *,
    rate: Duration | None = None,
    clock: Clock = "zoned",
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Samples of SAC files as uniform signals, keyed by ``network``, ``station``, ``location`` and ``channel``.

    Evenly spaced time series in either order of bytes. Spacing (``delta``) and begin (``b``, from the reference time on) are floats of
    single precision: each is taken for the shortest decimal that is the same float, so that 0.01 is a hundredth of a second.

    Parameters
    ----------
    path, rate, clock, progress, name :
        As in `read_miniseed`; in a folder every ``*.sac``.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, tempfile
    >>> header = np.full(158, -12345, "<i4")
    >>> header[:70] = np.array([-12345.0], "<f4").view("<i4")[0]
    >>> header[[0, 5]] = np.array([0.01, 0.0], "<f4").view("<i4")
    >>> header[[70, 71, 72, 73, 74, 75, 76, 79, 85, 105]] = 2026, 1, 0, 0, 0, 0, 6, 3, 1, 1
    >>> path = tempfile.mkdtemp() + "/a.sac"
    >>> with open(path, "wb") as file:
    ...     _ = file.write(header.tobytes() + np.array([1, 2, 3], "<f4").tobytes())
    >>> hp.read.sac(path)
    <UniformSignal(float32, every 10ms) by network, station, location, channel>
    """
    return recordings(SacData(path_text(path, "read.sac"), Names(), stated_period(rate), clock), progress, name)
