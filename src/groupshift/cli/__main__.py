"""`python -m groupshift.cli`, where the script is not on the path."""

from groupshift.cli import main

main()
