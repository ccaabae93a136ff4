"""`python -m paper run paper --out FOLDER`: the core dependencies are enough."""

import sys

from paper.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
