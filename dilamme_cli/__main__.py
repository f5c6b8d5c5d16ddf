"""`python -m dilamme_cli` is the command `dilamme`."""

from dilamme_cli.main import main

main()
