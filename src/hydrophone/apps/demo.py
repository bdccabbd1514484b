"""The demo: spectral cleaning of thousands of sensors, as a Spark batch job and as a stream, with equal answers.

``make demo`` runs it. It makes its own data: irregular clocks, gaps, glitches, late rows, and a few faulty sensors that hum.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.apps.report import Report, at_least, check_picture, picture_path, write_picture
from hydrophone.cli.progress_bar import Ticker

PERIOD = "100ms"
HUM = 1.7
"""Frequency of the faulty sensors' hum, in Hz."""
START = 1_760_000_000_000_000_000
DEMOS = {
    "spectral": "clean thousands of sensors, in batch and as a stream",
    "soccer": "a match seen by the sensors of players and balls: how they run, who has the ball, shots on goal",
    "detect_audio": "find calls in the recording of a microphone array",
    "silence_filter": "cut the spoken parts out of a recording",
    "pipeline_leak": "find where a pipe cracks, from the sensors along it",
    "localize": "find where animals call and what kind they are, from several arrays of microphones",
    "netmon": "put packets together again from damaged copies",
}
"""By name: what it does. Each but the first is the module of this package with its name."""
SHORTEST = 120
"""Minimum seconds of readings: a stream waits for late rows and open windows before it gives results."""
Array = npt.NDArray[Any]


# --- the query ----------------------------------------------------------------------------------------------------------


def keep_top(count: int) -> Any:
    """A window function that keeps the `count` strongest frequencies."""

    def top(spectra: Array) -> Array:
        weak = np.argsort(np.abs(spectra), axis=1)[:, :-count]
        out = spectra.copy()
        np.put_along_axis(out, weak, 0, axis=1)
        return out

    return top


def taper(windows: Array) -> Array:
    """Hann windows: half-overlapping ones add up to one, so that overlap-add gives the signal back."""
    size = windows.shape[1]
    return windows * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size))


def power(spectra: Array) -> Array:
    """The power of every frequency."""
    return np.abs(spectra) ** 2


def uniform(readings: hp.Stream) -> hp.UniformSignal:
    """Readings without glitches, on an exact grid."""
    return readings.where(hp.col("value") > -40).signal("value").sample(PERIOD, fill=hp.linear(max_gap="5s"))


def cleaned(readings: hp.Stream) -> hp.UniformSignal:
    """Every sensor's signal with only its eight strongest frequencies."""
    return uniform(readings).window(512, hop=256).map(taper).rfft().map(keep_top(8)).irfft().overlap_add()


def spectra(readings: hp.Stream) -> hp.Windowed:
    """Power over time and frequency."""
    return uniform(readings).window(512, hop=256).map(taper).rfft().map(power)


# --- the data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lake:
    """The paths of the demo's data, and the facts about it."""

    ordered: Path
    arriving: Path
    faulty: frozenset[int]
    rows: int


def make_lake(root: str | Path, sensors: int, seconds: int, *, files: int = 8, seed: int = 7) -> Lake:
    """Readings at about 10 Hz, written twice: in time order, and in the order in which they would have arrived."""
    root = Path(root)
    rng = np.random.default_rng(seed)
    beats = seconds * 10
    faulty = frozenset(rng.choice(sensors, max(2, sensors // 250), replace=False).tolist())
    sensor, beat = np.repeat(np.arange(sensors), beats), np.tile(np.arange(beats), sensors)
    seconds_in = beat / 10 + rng.uniform(0, 0.1, sensors)[sensor] + rng.normal(0, 0.008, len(beat))
    value = 20 + 4 * np.sin(2 * np.pi * seconds_in / 37 + rng.uniform(0, 6.28, sensors)[sensor])
    value += rng.normal(0, 0.4, len(beat)) + np.isin(sensor, list(faulty)) * 1.5 * np.sin(2 * np.pi * HUM * seconds_in)
    value[rng.random(len(beat)) < 0.001] = -99.0
    keep = (rng.random(len(beat)) > 0.01) & (rng.random((sensors, -(-beats // 64))) > 0.02)[sensor, beat // 64]
    sensor, seconds_in, value = sensor[keep], seconds_in[keep], value[keep]
    when = START // 1000 + (seconds_in * 1_000_000).astype(np.int64)
    delay = rng.exponential(0.3, len(when))
    delay[rng.random(len(when)) < 0.01] += rng.uniform(1, 8)
    delay[rng.random(len(when)) < 1e-5] += 40
    site = pa.array([f"site-{i}" for i in range(8)]).take(pa.array(sensor % 8))
    table = pa.table({"site": site, "sensor": sensor, "ts": pa.array(when).cast(pa.timestamp("us")), "value": value})
    _write(table, np.argsort(when, kind="stable"), root / "lake", files)
    _write(table, np.argsort(seconds_in + delay, kind="stable"), root / "arriving", files)
    return Lake(root / "lake", root / "arriving", faulty, len(table))


def _write(table: pa.Table, order: Array, folder: Path, files: int) -> None:
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(order, files)):
        pq.write_table(table.take(pa.array(rows)), folder / f"part-{number:03}.parquet", row_group_size=1 << 18)


# --- the run ------------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; the exit code says whether batch and stream agreed and the faulty sensors were found."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in DEMOS and given[0] != "spectral":
        code: int = import_module(f"hydrophone.apps.{given[0]}").main(given[1:])
        return code
    options = _options(given)
    check_picture(options.picture)
    with tempfile.TemporaryDirectory(prefix="hydrophone-demo-") as folder:
        return _run(Path(folder), options)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    demos = "\n".join(f"  {name.ljust(16)}{what}" for name, what in DEMOS.items())
    parser = argparse.ArgumentParser(
        prog="hydrophone demo",
        description=__doc__,
        epilog=f"demos, each with options of its own (hydrophone demo NAME --help):\n{demos}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=DEMOS, default="spectral", help="which demo (default: %(default)s)")
    parser.add_argument("--sensors", type=at_least(2), default=2_000, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=at_least(SHORTEST), default=200, help="how long the sensors read (default: %(default)s)"
    )
    parser.add_argument(
        "--picture", type=picture_path, default=Path("demo.png"), help="where the picture goes (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def _run(folder: Path, options: argparse.Namespace) -> int:
    from hydrophone.spark.quiet_start import quiet_start
    from hydrophone.spark.session import session

    report = Report()
    print("Hydrophone demo: clean thousands of sensors, in batch and as a stream")
    print("  making readings ...", flush=True)
    lake = make_lake(folder, options.sensors, options.seconds)
    report.add("readings", f"{lake.rows:,} of {options.sensors:,} sensors, {len(lake.faulty)} of them faulty")
    readings = hp.read.parquet(str(lake.ordered), key="sensor", time="ts")
    print("  starting Spark ...", flush=True)
    with quiet_start():
        spark = session("hydrophone demo")
        spark.sparkContext.setLogLevel("ERROR")  # Spark's warnings would hide the demo's output
    with report.timed("batch on Spark, spectra of all sensors", lake.rows):
        frames = spectra(readings).to_spark(spark).toArrow()
    with report.timed("batch on Spark, cleaned signals", lake.rows):
        batch = cleaned(readings).to_spark(spark).toArrow()
    report.add("plan chosen", cleaned(readings).explain("spark").splitlines()[0])
    with report.timed("the same query as a stream, out of order and late", lake.rows) as ticker:
        streamed, late = _stream(spark, lake, folder, ticker)
    same, compared, differ = _agreement(batch, streamed, late)
    report.add(
        "stream against batch",
        f"{'equal' if same else 'DIFFERENT'}: {compared:,} samples, largest difference {differ:.1e}",
    )
    report.add(
        "late rows",
        f"{len(late)}, kept aside; their {len(set(late['sensor'].to_pylist()))} sensors left out of the comparison",
    )
    found = faulty_sensors(frames)
    report.add(
        "faulty sensors found",
        f"{len(found & lake.faulty)} of {len(lake.faulty)}, and {len(found - lake.faulty)} false alarms",
    )
    picture(options.picture, readings, batch, frames, found or lake.faulty)
    report.add("picture", str(options.picture))
    spark.stop()
    report.show()
    return 0 if same and found == lake.faulty else 1


def _stream(spark: Any, lake: Lake, folder: Path, ticker: Ticker) -> tuple[pa.Table, pa.Table]:
    """Run the query over files in the order of arrival; give its answer and the late rows."""
    arriving = hp.read.parquet(str(lake.arriving), key="sensor", time="ts", progress=hp.delayed("10s"))
    to, aside = folder / "clean", folder / "late"
    query = cleaned(arriving).start(
        spark,
        to=hp.write.parquet(str(to)),
        checkpoint=str(folder / "checkpoint"),
        late=hp.late.side(str(aside)),
        files_per_batch=2,
        trigger="available",
    )
    batches = -(-len(list(lake.arriving.glob("*.parquet"))) // 2)
    while not query.wait(1):
        ticker.at(len(query.progress), batches, "micro-batches")
    rows = pq.read_table(to, columns=["sensor", "ts", "value"])
    late = (
        pq.read_table(aside, columns=["sensor", "ts"])
        if any(aside.rglob("*.parquet"))
        else rows.slice(0, 0).select(["sensor", "ts"])
    )
    return rows, late


SETTLED = 95_000_000
"""The stream has given all results up to this many microseconds before the last reading: delay, gap and two windows."""


def _agreement(batch: pa.Table, streamed: pa.Table, late: pa.Table) -> tuple[bool, int, float]:
    """Whether stream and batch agree, for all sensors without late rows.

    A stream never knows that it has ended, so its last windows are still open: it may lack the batch's last samples, no others.
    """
    spoiled = np.unique(late["sensor"].to_numpy())
    whole, live = _samples(batch, spoiled), _samples(streamed, spoiled)
    end = max((t for _, t in whole), default=0)
    settled = {at for at in whole if at[1] < end - SETTLED}
    largest = max((abs(whole.get(at, np.inf) - value) for at, value in live.items()), default=np.inf)
    return bool(largest < 1e-9 and settled <= live.keys()), len(live), float(largest)


def _samples(table: pa.Table, without: Array) -> dict[tuple[int, int], float]:
    """Every sample by its sensor and time in microseconds."""
    sensor, value = table["sensor"].to_numpy(), table["value"].to_numpy()
    when = table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    keep = ~np.isin(sensor, without)
    return dict(zip(zip(sensor[keep].tolist(), when[keep].tolist(), strict=True), value[keep].tolist(), strict=True))


def faulty_sensors(frames: pa.Table) -> frozenset[int]:
    """Sensors with a spectral line far above the noise of all sensors."""
    sensor, power_of = frames["sensor"].to_numpy(), _matrix(frames)
    lively = np.fft.rfftfreq(512, 0.1) > 0.5
    loud = (power_of[:, lively] / np.median(power_of[:, lively], axis=0)).max(axis=1) > 300
    return frozenset(sensor[loud].tolist())


def _matrix(frames: pa.Table) -> Array:
    values = frames["values"].combine_chunks()
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    return values.flatten().to_numpy().reshape(len(frames), -1)


# --- the picture --------------------------------------------------------------------------------------------------------


def picture(path: Path, readings: hp.Stream, batch: pa.Table, frames: pa.Table, found: frozenset[int]) -> None:
    """Raw against cleaned, the spectrum of a faulty sensor over time, and the power of all sensors."""
    sensor = min(found)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(10, 11), layout="constrained")
    raw = readings.where((hp.col("sensor") == sensor) & (hp.col("value") > -40)).to_arrow()
    clean = batch.filter(pa.compute.equal(batch["sensor"], sensor)).sort_by("ts")
    zero = raw["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy().min()
    top.plot(_seconds(raw, zero), raw["value"].to_numpy(), ".", ms=2, color="0.6", label="readings")
    top.plot(_seconds(clean, zero), clean["value"].to_numpy(), color="#0072b2", lw=1.2, label="cleaned")
    top.set(
        title=f"Sensor {sensor}, which hums at {HUM} Hz",
        xlabel="seconds",
        ylabel="value",
        xlim=(70, 110),
        ylim=(11, 29),
    )
    top.legend(loc="upper right")
    own = frames.filter(pa.compute.equal(frames["sensor"], sensor)).sort_by("ts")
    frequency = np.fft.rfftfreq(512, 0.1)
    decibels = 10 * np.log10(_matrix(own).T + 1e-9)
    low = float(np.percentile(decibels, 20))
    mesh = middle.pcolormesh(_seconds(own, zero), frequency, decibels, cmap="viridis", shading="nearest", vmin=low)
    middle.set(title=f"Power over time and frequency, sensor {sensor}", xlabel="seconds", ylabel="Hz")
    figure.colorbar(mesh, ax=middle, label="dB")
    image = _mean_power(frames)
    sensors = int(frames["sensor"].to_numpy().max()) + 1
    low = float(np.percentile(image, 20))
    extent = (0, frequency[-1], 0, sensors)
    mesh = bottom.imshow(image, aspect="auto", origin="lower", cmap="viridis", extent=extent, vmin=low, vmax=low + 45)
    bottom.plot([HUM] * len(found), sorted(found), "o", mfc="none", mec="#d55e00", ms=9, label="found faulty")
    bottom.legend(loc="upper right")
    bottom.set(title="Mean power of every sensor", xlabel="Hz", ylabel="sensor")
    figure.colorbar(mesh, ax=bottom, label="dB")
    write_picture(figure, path)


def _seconds(table: pa.Table, zero: int) -> Array:
    return (table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() - zero) / 1e6


def _mean_power(frames: pa.Table) -> Array:
    """A row per sensor, a column per frequency; the loudest of a few sensors where there are more than rows."""
    sensor, power_of = frames["sensor"].to_numpy(), _matrix(frames)
    total = np.zeros((sensor.max() + 1, power_of.shape[1]))
    np.add.at(total, sensor, power_of)
    mean = total / np.maximum(np.bincount(sensor, minlength=len(total)), 1)[:, None]
    fold = -(-len(mean) // 400)
    padded = np.pad(mean, ((0, -len(mean) % fold), (0, 0)))
    return 10 * np.log10(padded.reshape(-1, fold, mean.shape[1]).max(axis=1) + 1e-3)


if __name__ == "__main__":
    raise SystemExit(main())
