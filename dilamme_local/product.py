"""Where the product's own files are: template, functions, layers. In a wheel beside this module, in a checkout at its root."""

from pathlib import Path

_IN_WHEEL = Path(__file__).with_name("product")
IS_CHECKOUT = not _IN_WHEEL.is_dir()
PRODUCT = Path(__file__).parent.parent if IS_CHECKOUT else _IN_WHEEL
FUNCTIONS = PRODUCT / "functions"
PACKAGES = [str(PRODUCT), str(PRODUCT / "shared")] if IS_CHECKOUT else []
"""What the path of a new Python must have, so that it finds our packages; what is installed, it finds by itself."""
