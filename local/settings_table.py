"""The README's table of settings, made from the settings themselves: `python -m local.settings_table` writes it."""

from pathlib import Path

from dilamme.settings import PLACES, PREFIX, Settings

README = Path(__file__).resolve().parent.parent / "README.md"
OPENING, CLOSING = "<!-- settings -->\n", "<!-- /settings -->"


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
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
