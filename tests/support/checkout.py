"""Where the repository lies."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
