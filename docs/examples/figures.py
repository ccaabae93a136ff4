"""The article's Figures 2 and 3 beside ours, from paper/results."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from paper.plots import breakdown_figure
from paper.published import NAMES, figure_3
from paper.result_tables import COMPARED, distance_table, figure_2_table, medians
from paper.results import load_results
from paper.table_text import relative

RESULTS = Path(__file__).parents[2] / "paper" / "results"
runs = {name: load_results(RESULTS / name) for name in ("paper", "authors_code")}


def show(header, body):
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    for row in [header, *body]:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([row[0].ljust(len(first)), *rest]))
    print()


print("Setting 2, medians of AUC relative to Global in percent: article / paper / authors_code\n")
found, theirs = [medians(run) for run in runs.values()], figure_3()
body = [
    [f"d = {d}, K = {K}"]
    + [
        " / ".join(
            [
                relative(panel[m]),
                *(relative(ours[d, K][m]) if m in ours.get((d, K), {}) else "-" for ours in found),
            ]
        )
        for m in COMPARED
    ]
    for (d, K), panel in theirs.items()
]
show(["", *(NAMES[m] for m in COMPARED)], body)
for name, run in runs.items():
    if name == "authors_code":
        break
    print(f"{name}: how far our medians are from the article's\n")
    table = distance_table(run)
    show(list(table.header), table.body)
    print(f"{name}: Figure 2, medians over the sets\n")
    table = figure_2_table(run)
    show(list(table.header), table.body)

canvas = breakdown_figure(runs["paper"]).canvas
canvas.draw()
picture = np.asarray(canvas.buffer_rgba())
figure = plt.figure(figsize=(picture.shape[1] / 100, picture.shape[0] / 100))
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(picture)
axes.set_axis_off()
