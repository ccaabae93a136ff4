"""Every number in the sentences of a page is found in results/, or is a setting or an arithmetic that the page states.

Tables between comments are compared with their files in test_readme.py; what examples print is made while pages are built.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the tests run away from the repository")

# A decimal, a percentage or an amount of memory; other whole numbers are counts, years and sizes of examples.
NUMBER = re.compile(r"(?<![\w/.])(\d[\d,]*(?:\.\d+)?\s?%|\d*\.\d+|\d+(?= [KMGT]i?B\b))")
LEVELS = {"90 %", "95 %", "99 %"}
# What decides, versions and identifiers: numbers of the code and of the literature, not of a measurement.
SETTINGS = {
    "README.md": {"3.11", "10.1609"},
    "docs/install.md": {"3.11"},
    "docs/bibliography.md": {"10.1609"},
    "docs/data.md": {"2.5"},
    "docs/explanation/cannot_know.md": {"0.42"},  # half to twice at 90 %: log(2) / 1.645
    "docs/explanation/differences.md": {
        "20 %",
        ".75",
        ".95",
        ".76",
        "2 %",
    },  # the article, its generator, and ours
    "docs/howto/draws.md": {
        "2 %"
    },  # error of a quantile at 5 % of 1,000 normal draws, over the width from 5 to 95 %
    "docs/howto/files.md": {"20"},
    "docs/howto/spark.md": {"6"},
    "docs/explanation/results.md": {"0.01"},  # where axes become logarithmic
    "docs/howto/reading_the_diagnosis.md": {"1 %", "6 %"},
    # Arithmetic that the page shows, of the measured numbers above it.
    "docs/explanation/distributed.md": {"1.28", "1.4", "0.7", "3.6 %", "0.4", "1.5", "0.2", "15 %"}
    | {"32", "26", "6", "4", "46", "24"},
}


def benchmark(name):
    return json.loads((ROOT / "results" / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))


def distributed():
    """Numbers of the page on larger data, by the text that they have there."""
    few, many = benchmark("dask_traffic")["sizes"]
    runs = benchmark("streaming_scale")["runs"]
    slow = 100 * (1 - many["rows_per_second"] / few["rows_per_second"])
    off = re.search(r"up to (\d+)% off", benchmark("streaming_scale")["lines"][1]["what"])[1]
    found = {"0.1": runs[0]["mib_of_data"] / 1024, "2.4": runs[-1]["mib_of_data"] / 1024}
    found |= {"7 %": float(off), "4 %": slow, "560": runs[-1]["memory_mib"]}
    for size, texts in (
        (few, ("0.39", "2.6", "5.1", "3.9", "8 %")),
        (many, ("0.84", "7.7", "16.7", "47", "24 %")),
    ):
        names = ("to_each_worker", "from_a_partition", "from_a_partition_unpacked", "sum_of_all")
        values = [size[name] / 1e6 for name in names]
        values.append(100 * size["from_a_partition"] / size["partition_bytes"])
        found |= dict(zip(texts, values, strict=True))
    return found


def prediction_sets():
    """The table of sets of classes, and where its claim failed."""
    details = benchmark("prediction_sets")["details"]
    found = {
        f"{value:.{2 if name == 'size' else 3}f}": value
        for case in details.values()
        for method in case.values()
        for name, value in method.items()
    }
    return found | {"1.5": 1.5, "1.9": 100 * details["4 classes, 3 clusters"]["groupshift"]["short"]}


def panels():
    """The panels of Figure 3 that the page names."""
    from paper.published import figure_3
    from paper.result_tables import medians
    from paper.results import load_results

    panel, theirs = ("1", "8"), figure_3()["1", "8"]
    text, code = (
        medians(load_results(ROOT / "paper" / "results" / n))[panel] for n in ("paper", "authors_code")
    )
    return {
        "3.2 %": theirs["published"],
        "9.5 %": text["published"],
        "9.1": theirs["true_clustering"] - theirs["published"],
        "6.0": code["true_clustering"] - code["published"],
    }


MEASURED = {
    "docs/explanation/figures.md": panels,
    "docs/explanation/distributed.md": distributed,
    "docs/howto/prediction_sets.md": prediction_sets,
    "docs/tutorials/page.md": lambda: {"57": benchmark("serve_memory")["memory_mb_most"]},
}


def pages():
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    # The transcript is output, made by docs/make_transcript.py; the page of the method has the constants of the code.
    return sorted(
        p.relative_to(ROOT).as_posix()
        for p in found
        if "_build" not in p.parts and p.stem not in ("transcript", "method")
    )


def sentences(text):
    """A page without code, formulas, addresses and what scripts fill in."""
    text = re.sub(r"<!-- (\w+):begin -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(```|:::).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)


def test_sentences_are_what_is_left_of_a_page():
    page = "a .5\n```python\nx = .25\n```\n`.75` [b](c.25)\n<!-- t:begin -->\n.125\n<!-- t:end -->\n8 % .0625"
    assert NUMBER.findall(sentences(page)) == [".5", "8 %", ".0625"]


@pytest.mark.parametrize("page", pages())
def test_every_number_of_a_page_is_a_setting_or_is_found_in_results(page):
    shown = set(NUMBER.findall(sentences((ROOT / page).read_text(encoding="utf-8")))) - LEVELS
    measured = MEASURED[page]() if page in MEASURED and shown else {}
    unknown = shown - SETTINGS.get(page, set()) - set(measured)
    assert not unknown, "give the file that has these numbers, in MEASURED"
    for text, value in measured.items():
        digits = len(text.rstrip(" %").split(".")[1]) if "." in text else 0
        # Half of the last digit that is shown.
        assert float(text.rstrip(" %")) == pytest.approx(value, abs=0.5 * 10**-digits), text
