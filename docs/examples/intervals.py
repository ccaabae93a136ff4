"""How often 90 % intervals hold the truth when everything is learned, from results/benchmarks/intervals.json."""

import json
from pathlib import Path

file = Path(__file__).parents[2] / "results" / "benchmarks" / "intervals.json"
print(f"{'':<34} {'cells':>14} {'groups':>14} {'width of groups':>16}")
for case, found in json.loads(file.read_text())["details"].items():
    cells, groups = (
        f"{found[what]['mean']:.1%} ± {2 * found[what]['std_error']:.1%}"
        for what in ("cells told", "groups found")
    )
    print(f"{case:<34} {cells:>14} {groups:>14} {found['width of groups found']['mean']:>16.3f}")
