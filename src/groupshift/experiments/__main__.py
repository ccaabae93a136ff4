"""`python -m groupshift.experiments run paper.toml --out results/paper`: the core dependencies are enough."""

import sys

from groupshift.experiments.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
