"""Names that other libraries use, for hints: what is written here instead."""

from __future__ import annotations

from collections.abc import Mapping

_WINDOWS = 'tumble("1s").agg(n=hp.count())'
_GROUPS = f'key_by("site").{_WINDOWS}'
_FILLED = 'signal("x").sample("1s", fill=hp.linear())'
_DESIGNS = 'sos(scipy.signal.cheby1(..., output="sos", fs=rate))'
_RESULT = "to_arrow(), or to_pandas() and plot()"

STREAM: Mapping[str, str] = {
    "filter": 'where(hp.col("x") > 1) to keep some events; filters of signals come after signal(column).sample(period)',
    "agg": f"{_WINDOWS}: say over what first; also sliding, session, snapshot, last_n, count_window",
    "aggregate": f"{_WINDOWS}: say over what first; also sliding, session, snapshot, last_n, count_window",
    "resample": f'{_WINDOWS} for what falls into every second, signal("x").sample("1s") for samples',
    "rolling": 'sliding("5s", every="1s").agg(n=hp.count()), or last_n(5).agg(n=hp.count())',
    "window": f'{_WINDOWS} for windows of time, signal("x").sample("1s").window(512) for arrays of samples',
    "mean": 'tumble("1s").agg(mean=hp.mean("x"))',
    "sum": 'tumble("1s").agg(total=hp.sum("x"))',
    "min": 'tumble("1s").agg(least=hp.min("x"))',
    "max": 'tumble("1s").agg(largest=hp.max("x"))',
    "std": 'tumble("1s").agg(spread=hp.std("x"))',
    "count": _WINDOWS,
    "map": 'with_columns(y=hp.col("x") * 2); a function of samples comes after signal(column).sample(period)',
    "apply": 'with_columns(y=hp.col("x") * 2); functions of samples and windows come after signal(column).sample(period)',
    "diff": "pairs() for an event and the one before it, signal(column).sample(period).difference() for samples",
}
"""Names that mean something else to other handles than to a stream, or to a signal at any times."""

NAMES: Mapping[str, str] = {
    # tables
    **dict.fromkeys(("groupby", "group_by", "groupBy", "keyBy", "partition_by"), _GROUPS),
    **dict.fromkeys(("group_by_dynamic", "groupby_dynamic", "window_all", "windowAll"), _GROUPS),
    **dict.fromkeys(("assign", "with_column", "withColumn", "mutate", "eval"), 'with_columns(y=hp.col("x") * 2)'),
    **dict.fromkeys(("query", "loc", "iloc", "isin", "filterWhere"), 'where(hp.col("x") > 1)'),
    **dict.fromkeys(("merge", "left_join", "leftOuterJoin", "inner_join"), 'join(other, on="site")'),
    **dict.fromkeys(("merge_asof", "join_asof", "asof", "asofJoin"), "asof_join(other)"),
    **dict.fromkeys(("interval_join", "intervalJoin", "join_where"), "band_join(other, before=..., after=...)"),
    **dict.fromkeys(("concat", "append", "vstack", "unionAll", "unionByName", "extend_with"), "union(other)"),
    **dict.fromkeys(("drop", "drop_columns", "pop"), 'select("x"): name the columns that stay'),
    **dict.fromkeys(("rename", "withColumnRenamed", "alias"), 'with_columns(new=hp.col("old")).select("new")'),
    **dict.fromkeys(("sort_values", "sort_by", "orderBy", "order_by", "sort_index"), "sort()"),
    **dict.fromkeys(("drop_duplicates", "dropDuplicates", "unique", "dedup"), "distinct()"),
    **dict.fromkeys(("tail", "limit", "show", "collect", "compute", "execute", "fetchall"), _RESULT),
    **dict.fromkeys(("take", "first_rows"), "head(5)"),
    **dict.fromkeys(("gaps", "quality"), "describe()"),
    **dict.fromkeys(("toPandas", "df", "to_frame", "to_dataframe"), "to_pandas()"),
    **dict.fromkeys(("to_polars", "to_numpy", "values", "to_dict", "to_list", "tolist"), "to_arrow()"),
    **dict.fromkeys(("interpolate", "fillna", "fill_null", "ffill", "bfill", "asfreq", "reindex"), _FILLED),
    **dict.fromkeys(("dropna", "drop_nulls", "notna"), 'where(~hp.col("x").is_null())'),
    **dict.fromkeys(("info", "schema", "dtypes", "columns", "printSchema"), "explain()"),
    **dict.fromkeys(("write", "to_table", "sink_parquet", "write_parquet"), 'save(hp.write.parquet("clean/"))'),
    **dict.fromkeys(("writeStream", "sink_to", "run", "awaitTermination"), 'start(spark, to=..., checkpoint="...")'),
    **dict.fromkeys(("lag", "lead", "pct_change"), "pairs()"),
    **dict.fromkeys(("expanding", "cummax", "cummin", "cumprod"), "iterate(...): see hp.StatefulOperator"),
    **dict.fromkeys(("nlargest", "nsmallest"), 'top_k(5, by="x", size="1s")'),
    # filters
    "lfilter": "iir(b, a)",
    **dict.fromkeys(("sosfilt", "sosfreqz"), "sos(sections)"),
    **dict.fromkeys(("sosfiltfilt", "zero_phase"), "filtfilt(sections)"),
    **dict.fromkeys(("butter", "lowpass_filter", "butter_lowpass", "lowpass_biquad"), "lowpass(cutoff, order)"),
    **dict.fromkeys(("highpass_filter", "butter_highpass", "highpass_biquad"), "highpass(cutoff, order)"),
    **dict.fromkeys(("bandpass_filter", "butter_bandpass"), "bandpass(low, high, order)"),
    **dict.fromkeys(("cheby1", "cheby2", "ellip", "bessel", "iirfilter", "iirdesign"), _DESIGNS),
    **dict.fromkeys(("firwin", "firwin2"), "lowpass(cutoff, taps=101)"),
    **dict.fromkeys(("remez", "firls"), "fir(scipy.signal.remez(...))"),
    **dict.fromkeys(("iirnotch", "iirpeak", "notch_filter"), "notch(freq, q)"),
    **dict.fromkeys(("medfilt", "median_filter", "rolling_median"), "moving_median(size)"),
    **dict.fromkeys(("uniform_filter1d", "rolling_mean", "moving_average", "smooth"), "moving_mean(size)"),
    **dict.fromkeys(("rolling_std", "rolling_sum", "rolling_max", "rolling_min"), 'rolling("std", size, hop=1)'),
    **dict.fromkeys(("savgol_filter", "savitzky_golay"), "savgol(window, polyorder)"),
    **dict.fromkeys(("fftconvolve", "oaconvolve", "convolve1d"), "fir(taps)"),
    **dict.fromkeys(("ewm", "ewm_mean", "exponential_smoothing"), "ema(alpha)"),
    **dict.fromkeys(("diff", "ediff1d"), "difference()"),
    **dict.fromkeys(("gradient", "derivative"), "differentiate()"),
    **dict.fromkeys(("cumsum", "cumtrapz", "cumulative_trapezoid"), "integrate()"),
    "normalize": "normalise(size)",
    "remove_outliers": "hampel(size)",
    # spectra
    **dict.fromkeys(("periodogram", "specgram"), "spectrogram(size)"),
    **dict.fromkeys(("psd",), "welch(size, average=8)"),
    **dict.fromkeys(("melspectrogram", "mfcc"), "stft(size).mel_bands(40)"),
    **dict.fromkeys(("get_window", "hann", "hamming", "blackman"), 'window(size).taper("hann")'),
    **dict.fromkeys(("wavedec", "cwt"), 'dwt("haar", levels)'),
    "waverec": 'window(size).idwt("haar", levels)',
    **dict.fromkeys(("irfft2", "istft2"), "istft()"),
    # detectors
    **dict.fromkeys(
        ("argrelmax", "argrelextrema", "find_peaks_cwt", "peak_widths", "peak_prominences"), "find_peaks()"
    ),
    **dict.fromkeys(("classic_sta_lta", "recursive_sta_lta", "stalta"), "sta_lta(short, long)"),
    **dict.fromkeys(("trigger_onset", "threshold"), "trigger(on, off)"),
    "zero_crossing_rate": "zero_crossings()",
    "coincidence_trigger": "coincidence(3)",
    # windows and rates
    **dict.fromkeys(("frame", "sliding_window_view", "unfold", "buffer", "chunk"), "window(size, hop=hop)"),
    **dict.fromkeys(("overlap_and_add", "ola", "fold"), "overlap_add()"),
    **dict.fromkeys(("tumbling", "tumble_window", "TumblingWindow"), _WINDOWS),
    **dict.fromkeys(("hopping", "hop_window", "sliding_window"), 'sliding("5s", every="1s").agg(n=hp.count())'),
    **dict.fromkeys(("session_window",), 'session("5s").agg(n=hp.count())'),
    **dict.fromkeys(("signal_resample", "interp1d", "zoom"), "resample(period)"),
    **dict.fromkeys(("trim", "slice", "cut", "between", "crop"), "to_arrow(start=..., end=...)"),
    "astype": "map(lambda x: x.astype(float))",
}
"""What other libraries call so, written with our methods."""

FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(("read_parquet", "scan_parquet"), 'hp.read.parquet("readings/", key="sensor", time="ts")'),
    **dict.fromkeys(("read_csv", "scan_csv"), 'hp.read.csv("readings.csv", key="sensor", time="ts")'),
    **dict.fromkeys(("read_segments",), 'hp.read.segments("lake/", key="sensor", time="ts")'),
    **dict.fromkeys(("DataFrame", "Series", "from_records"), 'hp.from_pandas(frame, key="sensor", time="ts")'),
    **dict.fromkeys(("Table", "table", "from_dict"), 'hp.from_arrow(pa.table({...}), time="ts")'),
    **dict.fromkeys(("array", "asarray", "from_array"), 'hp.from_numpy(x, rate="25.6kHz")'),
    **dict.fromkeys(("concat", "merge"), "hp.union(a, b)"),
    **dict.fromkeys(("avg", "average"), 'hp.mean("x")'),
    **dict.fromkeys(("stddev", "stdev", "stddev_pop"), 'hp.std("x")'),
    **dict.fromkeys(("var", "var_pop"), 'hp.variance("x")'),
    **dict.fromkeys(("median", "percentile", "percentile_approx"), 'hp.quantile("x", 0.5)'),
    **dict.fromkeys(("nunique", "n_unique", "count_distinct", "countDistinct"), 'hp.distinct_count("x")'),
    **dict.fromkeys(("len", "size"), "hp.count()"),
    **dict.fromkeys(("ffill", "previous", "nearest"), "hp.hold()"),
    **dict.fromkeys(("interpolate", "interp", "interp1d"), "hp.linear()"),
    **dict.fromkeys(("watermark", "withWatermark", "allowed_lateness"), 'hp.delayed("10s")'),
    **dict.fromkeys(("column", "F", "field"), 'hp.col("x")'),
    **dict.fromkeys(("write_parquet", "to_parquet"), 'hp.write.parquet("clean/")'),
}
"""What other libraries call so, among the functions of the package."""

FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("pandas", "DataFrame"), 'hp.from_pandas(frame, key="sensor", time="ts")'),
    **dict.fromkeys(("arrow", "table", "feather", "ipc"), 'hp.from_arrow(table, key="sensor", time="ts")'),
    "polars": 'hp.from_polars(frame, key="sensor", time="ts")',
    **dict.fromkeys(("spark", "delta", "jdbc", "orc", "json"), 'hp.from_spark(spark.read..., key="sensor", time="ts")'),
    **dict.fromkeys(("kafka", "stream"), 'hp.from_spark(spark.readStream..., key="sensor", time="ts")'),
    **dict.fromkeys(("read_csv", "text", "tsv"), 'hp.read.csv("readings.csv", key="sensor", time="ts")'),
    **dict.fromkeys(("read_parquet", "pq", "lake"), 'hp.read.parquet("readings/", key="sensor", time="ts")'),
    **dict.fromkeys(("audio", "flac", "soundfile", "read_wav"), 'hp.read.wav("mics/*.wav")'),
}
"""What people look for in `hp.read`."""
