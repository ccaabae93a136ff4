"""`python -m paper run paper --out FOLDER`."""

import sys

from paper.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
