"""One change at a time: what moves the article's method on reviews, from paper/results/reviews."""

from pathlib import Path

from paper.published import NAMES
from paper.results import Mean, load_results
from paper.table_text import signed

RESULTS = Path(__file__).parents[2] / "paper" / "results"


def show(folder, setting, methods, less):
    run = load_results(RESULTS / folder)
    places = [place for place in run.places if place[1] == setting]
    names = "".join(f"{NAMES.get(m, m):>28}" for m in methods)
    print(f"{f'Setting {setting}, AUC less {NAMES[less]}':<36}{NAMES[less]:>8}{names}")
    for place in places:
        gains = [signed(Mean.of(run.differences(place, m, less))) for m in methods]
        print(f"{place[0]:<36}{run.mean(place, less).value:>8.3f}" + "".join(f"{gain:>28}" for gain in gains))
    print()


show("reviews", "2", ("label_shift", "published", "true_clustering"), "global")
