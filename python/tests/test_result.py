"""Reading results; frames against the document and the page; what a notebook shows."""

import csv
import gzip
import html
import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import weirlab
from weirlab import _tables

from .shared import FOLDER, needs, result, result_file


class Reading(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER))

    def rows(self, got):
        return list(got.tables["samples"])

    def test_a_result_is_the_same_from_every_place_that_holds_it(self):
        whole = self.rows(result())
        shutil.copy(result_file(), self.folder / "result.json")
        bundle = self.folder / "b.tar.gz"
        subprocess.run([str(weirlab.find()), "report", str(result_file()), "--bundle", str(bundle), "--quiet"], check=True)
        for place in (result_file(), str(result_file()), self.folder, bundle):
            self.assertEqual(self.rows(weirlab.read(place)), whole, place)
        tables = self.folder / "tables"
        result().save_tables(tables)
        self.assertEqual(self.rows(weirlab.read(tables)), whole)
        self.assertEqual(self.rows(weirlab.read(tables / "samples.csv")), whole)

    def test_a_small_result_keeps_its_rates_and_loses_its_histograms(self):
        got = weirlab.read(result().save(self.folder / "small.json.gz"))
        self.assertEqual([row["ops"] for row in self.rows(got)], [row["ops"] for row in self.rows(result())])
        self.assertEqual(len(got.tables["histograms"]), 0)
        with self.assertRaisesRegex(weirlab.Error, "no latencies"):
            got.latency("write")

    def test_the_last_run_is_called_latest(self):
        result()
        self.assertGreater(len(weirlab.read("latest").tables["samples"]), 0)

    def test_a_result_outlives_its_file(self):
        copied = self.folder / "r.json"
        shutil.copy(result_file(), copied)
        got = weirlab.read(copied)
        copied.unlink()
        self.assertEqual(self.rows(got), self.rows(result()))
        self.assertEqual(got.document["schema"], "weir.result/1")

    def test_files_that_are_no_results_are_refused_with_the_reason(self):
        text = result_file().read_text()
        cases = {
            "cut.json": (text[: len(text) // 2], r"cut.json:\d+:\d+: .*EOF"),
            "foreign.json": ('{"a": 1}', "schema is missing"),
            "newer.json": ('{"schema": "weir.result/9"}', "weir.result/9"),
            "empty.json": ("", "empty.json"),
            "table.csv": ("a,b\n1,2\n", "no table `columns`"),
        }
        for name, (content, told) in cases.items():
            path = self.folder / name
            path.write_text(content)
            with self.assertRaisesRegex(weirlab.Error, told, msg=name):
                weirlab.read(path)
        cut = self.folder / "cut.json.gz"
        cut.write_bytes(gzip.compress(text.encode())[:500])
        with self.assertRaisesRegex(weirlab.Error, "cut.json.gz"):
            weirlab.read(cut)
        with self.assertRaisesRegex(weirlab.Refused, "there is no result"):
            weirlab.read(self.folder / "missing.json")

    def test_damaged_tables_are_told_with_file_and_line(self):
        tables = self.folder / "tables"
        result().save_tables(tables)
        samples = tables / "samples.csv"
        whole = samples.read_text()
        damages = [
            (whole[: whole.rindex(",") - 40], r"samples.csv:\d+: the row has \d+ of \d+ cells"),
            (whole.replace(",virtual,", ",virtual,x,", 1), r"samples.csv:2: the row has"),
            (re.sub(r",2000000,", ",2e6,", whole, count=1), r"samples.csv:2: '2e6' in 'elapsed_ns' is no count"),
            (whole.replace("throughput_ops_per_s", "speed", 1), "describes no column 'speed'"),
            ("", "samples.csv: is empty"),
        ]
        for text, told in damages:
            samples.write_text(text)
            with self.assertRaisesRegex(weirlab.Error, told):
                weirlab.read(tables).tables["samples"]
        samples.write_bytes(b"\xff\xfe")
        with self.assertRaisesRegex(weirlab.Error, "no text at byte 0"):
            weirlab.read(tables).tables["samples"]
        samples.unlink()
        with self.assertRaisesRegex(weirlab.Error, "samples is missing"):
            weirlab.read(tables).tables["samples"]

    def test_tables_alone_have_no_document_and_say_so(self):
        result().save_tables(self.folder / "tables")
        got = weirlab.read(self.folder / "tables")
        with self.assertRaisesRegex(weirlab.Error, "read the result.json"):
            got.document
        self.assertIn("no winner" if "no winner" in result().headline else "", repr(got))
        self.assertIn("Tables of a result", got._repr_html_())

    @needs("pyarrow")
    def test_parquet_has_the_rows_of_the_csv(self):
        tables = self.folder / "parquet"
        try:
            result().save_tables(tables, format="parquet")
        except weirlab.Error as error:
            self.skipTest(f"the command writes no Parquet: {error}")
        for name in result().tables:
            self.assertEqual(list(weirlab.read(tables).tables[name]), list(result().tables[name]), name)
        alone = weirlab.read(tables / "samples.parquet").tables["samples"]
        self.assertEqual(list(alone), self.rows(result()))
        path = tables / "samples.parquet"
        path.write_bytes(path.read_bytes()[:-100])
        with self.assertRaisesRegex(weirlab.Error, "no whole Parquet file"):
            weirlab.read(path)

    @needs("pyarrow")
    def test_parquet_of_the_types_that_the_command_writes_is_read(self):
        import pyarrow
        import pyarrow.parquet

        types = {"text": pyarrow.string(), "count": pyarrow.uint64(), "number": pyarrow.float64(), "flag": pyarrow.bool_()}
        for table in result().tables.values():
            columns = {column.name: pyarrow.array(table[column.name], types[column.type]) for column in table.columns}
            pyarrow.parquet.write_table(pyarrow.table(columns), self.folder / f"{table.name}.parquet")
        got = weirlab.read(self.folder)
        for name, table in result().tables.items():
            self.assertEqual(list(got.tables[name]), list(table), name)
            self.assertEqual(got.tables[name].columns, table.columns, name)
        path = self.folder / "samples.parquet"
        self.assertEqual(list(weirlab.read(path).tables["samples"]), self.rows(result()))
        path.write_bytes(path.read_bytes()[:-100])
        with self.assertRaisesRegex(weirlab.Error, "no whole Parquet file"):
            weirlab.read(path)
        pyarrow.parquet.write_table(pyarrow.table({"a": [[1]]}), self.folder / "foreign.parquet")
        with self.assertRaisesRegex(weirlab.Error, "'a' is of type list.*no table of Weir"):
            weirlab.read(self.folder / "foreign.parquet")

    def test_parquet_without_pyarrow_is_told(self):
        path = self.folder / "samples.parquet"
        path.write_bytes(b"PAR1")
        with mock.patch.dict("sys.modules", {"pyarrow": None}), self.assertRaisesRegex(weirlab.PackageMissing, "pyarrow"):
            weirlab.read(path)


class Tables(unittest.TestCase):
    def test_every_number_of_a_sample_is_that_of_the_document(self):
        rows = list(result().tables["samples"])
        self.assertEqual(len(rows), len(result().document["samples"]))
        names = ["elapsed_ns", "ops", "throughput_ops_per_s", "read_ops", "write_ops", "read_bytes", "written_bytes", "errors"]
        for row, sample in zip(rows, result().document["samples"]):
            for name in [*names, "repeat", "seed"]:
                self.assertEqual(row[name], sample[name], name)
            self.assertEqual({f"axis.{name}" for name in sample["axes"]}, {name for name in row if name.startswith("axis.")})
            self.assertEqual(row["axis.threads"], int(sample["axes"]["threads"]))

    def test_tables_sum_to_the_document(self):
        samples = result().document["samples"]
        calls, steps = result().tables["calls"], result().tables["operations"]

        def of(records, key):
            return sum(one[key] for sample in samples for one in sample.get(records, []))

        self.assertEqual(sum(calls["count"]), of("operations", "count"))
        self.assertEqual(sum(calls["time_ns"]), of("operations", "total_ns"))
        self.assertEqual(sum(steps["count"]), of("steps", "count"))
        self.assertEqual(sum(result().tables["workers"]["ops"]), of("workers", "ops"))
        self.assertEqual(sum(result().tables["series"]["calls"]), sum(sum(sample["series"]["ops"]) for sample in samples))
        histograms = result().tables["histograms"]
        counted = sum(row["count"] for row in histograms if row["grain"] == "call")
        # Work in the background, as cleaning a log, has no latency.
        self.assertEqual(counted, sum(call["latency_ns"]["count"] for sample in samples for call in sample["operations"]))

    def test_quantiles_of_a_sample_are_those_that_it_records(self):
        names = {"p50_ns": 0.5, "p90_ns": 0.9, "p95_ns": 0.95, "p99_ns": 0.99, "p99_9_ns": 0.999, "p99_99_ns": 0.9999}
        names["max_ns"] = 1.0
        for number, sample in enumerate(result().document["samples"]):
            # Work in the background has none.
            timed = [call for call in sample["operations"] if call["latency_ns"]["count"]]
            for call in timed if number % 7 == 0 else []:
                found = result().latency(call["kind"], sample=number)
                self.assertEqual(found.count, call["count"])
                for name, share in names.items():
                    self.assertEqual(found.quantile(share), call["latency_ns"][name], (number, call["kind"], name))

    def test_pooled_quantiles_are_those_of_the_page(self):
        table = weirlab._summary.parse(result().save(FOLDER / "page.md").read_text())[0].tables[0]
        column = table.heads.index("p99")
        checked = 0
        for row in table.rows:
            if row[column] == "–":
                continue
            fs, threads = row[table.heads.index("file system")], int(row[table.heads.index("threads")])
            mine = result().latency(fs=fs, threads=threads).quantile(0.99)
            self.assertEqual(human(mine), row[column], (fs, threads))
            checked += 1
        self.assertGreater(checked, 0)

    def test_a_quantile_is_the_least_latency_that_the_share_does_not_exceed(self):
        found = _tables.Histogram({(n, n): 1 for n in range(1, 101)})
        self.assertEqual([found.quantile(share) for share in (0.0, 0.01, 0.5, 0.99, 1.0)], [1, 1, 50, 99, 100])
        self.assertIsNone(_tables.Histogram({}).quantile(0.5))
        with self.assertRaises(ValueError):
            found.quantile(99)

    def test_an_axis_that_is_none_is_told_with_those_there_are(self):
        with self.assertRaisesRegex(weirlab.Error, "no axis.*'thread'.*fs, medium, threads"):
            result().latency(thread=4)
        with self.assertRaisesRegex(KeyError, "no column 'speed'.*throughput_ops_per_s"):
            result().tables["samples"]["speed"]
        with self.assertRaisesRegex(KeyError, "no table 'sample'.*samples"):
            result().tables["sample"]

    def test_every_column_has_a_meaning_and_every_quantity_a_unit(self):
        for name in result().tables:
            for column in result().tables[name].columns:
                self.assertTrue(column.meaning, column)
                self.assertTrue(column.unit or not column.name.endswith(("_ns", "_bytes")), column)


def human(ns):
    """A time as the page writes it: three digits."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)):
        if ns >= factor:
            value = ns / factor
            # Rounding may lead to a place more before the point: 99.97 is 100.
            digits = 0 if unit == "ns" else 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    return "0 ns"


class Frames(unittest.TestCase):
    @needs("pandas")
    def test_pandas_has_the_types_of_the_columns(self):
        frame = result().samples
        self.assertEqual({str(kind) for kind in frame.dtypes}, {"Int64", "UInt64", "float64", "boolean", "string"})
        self.assertEqual(str(frame["axis.threads"].dtype), "Int64")
        self.assertEqual(sorted(frame["axis.threads"].unique()), [1, 2, 10])
        self.assertEqual(str(frame["seed"].dtype), "UInt64")
        self.assertEqual([int(seed) for seed in frame.seed], [sample["seed"] for sample in result().document["samples"]])
        self.assertEqual(frame.attrs["seed"], 1)
        self.assertEqual(frame.attrs["units"]["elapsed_ns"], "ns")
        self.assertEqual(frame.attrs["clock"], "virtual")

    @needs("pandas")
    def test_frames_of_every_table_sum_as_the_tables_do(self):
        for name, frame in result().frames.items():
            table = result().tables[name]
            self.assertEqual(len(frame), len(table), name)
            self.assertEqual(list(frame.columns), [column.name for column in table.columns], name)
            for column in table.columns:
                if column.type == "count" and column.name != "seed":
                    there = [value for value in table[column.name] if value is not None]
                    self.assertEqual(int(frame[column.name].sum()), sum(there), (name, column.name))

    @needs("pandas")
    def test_large_counts_are_exact_beside_empty_cells(self):
        column = _tables.Column("value", "count", "", "")
        values = [2**63 - 1, None, 2**53 + 1]
        frame = _tables.Table("t", [column], {"value": values}).to_pandas()
        self.assertEqual(int(frame["value"][0]), values[0])
        self.assertEqual(int(frame["value"][2]), values[2])
        self.assertTrue(frame["value"].isna()[1])
        most = _tables.Table("t", [column], {"value": [2**64 - 1, None]}).to_pandas()
        self.assertEqual((str(most["value"].dtype), int(most["value"][0])), ("UInt64", 2**64 - 1))

    @needs("polars")
    def test_polars_has_the_same_rows(self):
        for name in result().tables:
            self.assertEqual(result().tables[name].to_polars().rows(named=True), list(result().tables[name]), name)

    @needs("pyarrow")
    def test_arrow_has_the_same_rows_with_units(self):
        for name in result().tables:
            self.assertEqual(result().tables[name].to_arrow().to_pylist(), list(result().tables[name]), name)
        field = result().tables["samples"].to_arrow().schema.field("elapsed_ns")
        self.assertEqual(field.metadata[b"unit"], b"ns")

    def test_without_pandas_the_advice_is_told_and_tables_work(self):
        got = weirlab.read(result_file())
        with mock.patch.dict("sys.modules", {"pandas": None}):
            with self.assertRaisesRegex(weirlab.PackageMissing, r"weir-lab\[pandas\].*\.tables"):
                got.samples
            self.assertEqual(len(got.tables["samples"]), 36)


class Shown(unittest.TestCase):
    def test_a_notebook_shows_the_answer_and_the_table_of_the_page(self):
        page = weirlab._summary.parse(result().save(FOLDER / "shown.md").read_text())[0]
        shown = result()._repr_html_()
        self.assertIn(html.escape(page.headline), shown)
        self.assertEqual(result().headline, page.headline)
        self.assertEqual(len(page.tables[0].rows), 6)
        for row in page.tables[0].rows:
            for cell in row:
                self.assertIn(f">{cell}</td>", shown)
        self.assertIn(page.headline, repr(result()))

    def test_words_of_a_result_are_escaped(self):
        evil = "<script>alert(1)</script>|\\|<img src=x onerror=y>"
        document = json.loads(result_file().read_text())
        document.update(name=evil, why=evil)
        for sample in document["samples"]:
            sample["axes"]["workload"] = evil
            sample["notes"] = [evil]
        path = FOLDER / "evil.json"
        path.write_text(json.dumps(document))
        got = weirlab.read(path)
        texts = [got._repr_html_(), *(got.tables[name]._repr_html_() for name in got.tables)]
        texts += [figure._repr_html_() for figure in got.figures.values()]
        for text in texts:
            self.assertNotIn("<script", text)
            self.assertNotIn("<img", text)
        self.assertIn("&lt;script&gt;", got._repr_html_())

    def test_a_bar_in_a_cell_does_not_end_it(self):
        table = weirlab._summary.parse("# n\n\nanswer\n\n**t**\n\n| a | b |\n|---|---:|\n| x\\|y | 1 |\n")[0].tables[0]
        self.assertEqual((table.heads, table.right, table.rows), (["a", "b"], [False, True], [["x|y", "1"]]))


class Figures(unittest.TestCase):
    def test_a_figure_has_the_intervals_of_the_page(self):
        figure = result().figures["throughput-threads"]
        self.assertEqual(figure.kind, "lines")
        self.assertEqual(figure.x_label, "threads")
        with tempfile.TemporaryDirectory() as folder:
            written = result().save_figures(folder)
            path = next(path for path in written if path.name == "bench-throughput-threads.csv")
            rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertEqual(len(figure.points), len(rows))
        for point, row in zip(figure.points, rows):
            self.assertEqual([point.value, point.low, point.high], [float(row[name]) for name in ("value", "low", "high")])
            self.assertEqual((point.interval, point.repeats), ("95 %", 6))
            self.assertTrue(point.low <= point.value <= point.high)
        self.assertEqual(len(figure.svgs), 1)

    def test_medians_of_the_samples_are_the_points(self):
        import statistics

        for point in result().figures["throughput-threads"].points:
            cell = (point.series, float(point.x))
            rows = [row for row in result().tables["samples"] if (row["axis.fs"], row["axis.threads"]) == cell]
            self.assertEqual(statistics.median(row["throughput_ops_per_s"] for row in rows), point.value)

    @needs("matplotlib")
    def test_drawn_error_bars_are_the_intervals(self):
        import matplotlib

        matplotlib.use("Agg")
        figure = result().figures["throughput-threads"]
        (axes,) = figure.draw().axes
        drawn = {bars.get_label(): bars for bars in axes.containers}
        for name in ("pmfs", "nova"):
            points = [point for point in figure.points if point.series == name]
            (segments,) = [part for part in drawn[name][2]]
            spans = [tuple(line[:, 1]) for line in segments.get_segments()]
            for (low, high), point in zip(spans, points):
                self.assertAlmostEqual(low, point.low)
                self.assertAlmostEqual(high, point.high)
        self.assertEqual(axes.get_xlabel(), "threads")
        self.assertEqual(axes.get_ylim()[0], 0)

    @needs("matplotlib")
    def test_every_figure_that_has_points_is_drawn(self):
        import matplotlib

        matplotlib.use("Agg")
        drawn = 0
        for figure in result().figures.values():
            if figure.kind != "other":
                figure.draw().savefig(FOLDER / f"{figure.name}.pdf")
                drawn += 1
        self.assertGreaterEqual(drawn, 4)
        rows = [["", "a", "s", "2", "1", "4", "range", "3", "throughput"], ["", "b", "s", "", "", "", "", "0", "throughput"]]
        bars = weirlab.Figure("b", _heads(), rows, {}, "bars")
        (container, *_) = [c for c in bars.draw().axes[0].containers if hasattr(c, "patches")]
        self.assertEqual(len(container.patches), 1, "what was not measured draws no bar")

    def test_identifiers_of_drawings_do_not_meet(self):
        shown = result().figures["time"]._repr_html_()
        found = re.findall(r'\bid="([^"]*)"', shown)
        self.assertEqual(len(found), len(set(found)))
        for used in re.findall(r"url\(#([^)]*)\)", shown):
            self.assertIn(used, found)


def _heads():
    return ["panel", "x", "series", "value", "low", "high", "interval", "repeats", "metric"]
