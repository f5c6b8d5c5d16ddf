"""Your job handlers: any module in this folder is found by itself."""
