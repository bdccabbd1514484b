"""All Python in the README and the docs runs, block after block, on real data; the recipe for an operator makes a good one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hydrophone
from hydrophone.apps import demo

ROOT = Path(__file__).parents[2]
RECIPE = "docs/add-an-operator.md"
TUTORIAL = "docs/tutorial.md"


def blocks(page: str) -> list[tuple[int, str]]:
    text = (ROOT / page).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text[: m.start(1)].count("\n"), m.group(1)) for m in found]


PAGES = [str(p.relative_to(ROOT)) for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
PAGES = [page for page in PAGES if page != RECIPE and blocks(page)]


@pytest.mark.spark
@pytest.mark.parametrize("page", PAGES)
def test_the_code_in_the_docs_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object) -> None:
    lake = demo.make_lake(tmp_path / "made", sensors=12, seconds=90, files=3)
    os.rename(lake.ordered, tmp_path / "readings")
    monkeypatch.chdir(tmp_path)
    for _ in range(2 if page == TUTORIAL else 1):  # who tries the tutorial tries it again, in the same folder
        names: dict[str, object] = {"__name__": "docs"}
        for line, code in blocks(page):
            # The line numbers of a failure are those of the page.
            exec(compile("\n" * line + code, page, "exec"), names)


def test_the_readings_of_the_readme_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = re.findall(r'`python -c "(.*?)"`', (ROOT / "README.md").read_text())
    monkeypatch.chdir(tmp_path)
    exec(command, {})
    made = hydrophone.api.read.parquet("made/lake/", key="sensor", time="ts").to_arrow()
    assert len(made["sensor"].unique()) == 100 and {"ts", "value"} <= set(made.column_names)


def test_every_picture_and_page_that_is_named_exists() -> None:
    for page in ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} names {target}"


@pytest.mark.timeout(3600)
def test_the_recipe_makes_an_operator_that_passes_the_laws(tmp_path: Path) -> None:
    """In a copy of the package and its tests; under another name, for the day when there is a `difference`.

    Compiled kernels are copied too: they are valid as long as their sources have the same time and size.
    """
    shutil.copytree(Path(hydrophone.__file__).parent, tmp_path / "src/hydrophone", ignore=_byte_code)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=_byte_code)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    node, method, cases = (code.replace("ifference", "ifference_as_told") for _, code in blocks(RECIPE))
    node, method, cases = (code.replace("Difference_as_told", "DifferenceAsTold") for code in (node, method, cases))
    (tmp_path / "src/hydrophone/ops/filters/difference_as_told.py").write_text(node)
    imported = "from hydrophone.ops.filters.difference_as_told import DifferenceAsTold\n"
    handles = tmp_path / "src/hydrophone/api/filters.py"
    _append(handles, method)
    first = "from hydrophone.ops"
    handles.write_text(handles.read_text().replace(first, imported + first, 1))
    (tmp_path / "tests/cases/difference_as_told.py").write_text(imported + cases)
    for command in (
        ["tests.golden.make", "states", "local"],
        ["pytest", "-q", "-k", "as_told", "tests/cases", "tests/laws"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path)])},
            capture_output=True,
            text=True,
            timeout=1500,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 20


def _append(file: Path, text: str) -> None:
    file.write_text(f"{file.read_text()}\n\n{text}" if not text.startswith(" ") else f"{file.read_text()}\n{text}")


def _byte_code(folder: str, names: list[str]) -> list[str]:
    """What is not copied: all caches but those of kernels, whose drafts another process may be writing."""
    return [n for n in names if not n.endswith((".nbi", ".nbc"))] if folder.endswith("__pycache__") else []
