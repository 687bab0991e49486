"""`python -m deck.cli`: the command line without its console script."""

from deck.cli import main

main()
