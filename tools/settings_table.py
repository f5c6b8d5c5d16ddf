"""Writes the table of docs/settings.md from the settings themselves: `python -m tools.settings_table`."""

from pathlib import Path

from dilamme.settings import PLACES, PREFIX, Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
OPENING, CLOSING = "<!-- tools/settings_table.py -->\n", "<!-- end -->"


def table() -> str:
    """A row a setting, as Markdown."""
    rows = ["| variable | default | |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default).lower()
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    rows += [f"| `{PREFIX}{name}` |  | {description} Set by the deployment. |" for name, description in PLACES.items()]
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """``text`` with the table between its two marks."""
    before, rest = text.split(OPENING)
    return before + OPENING + table() + CLOSING + rest.split(CLOSING)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
