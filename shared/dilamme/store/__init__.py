"""The only package that knows SQL: named blocks in ``sql/``, one module a table, migrations beside them.

Store functions have no ``if``: they send one statement and shape its rows. The decision stands in a use case.
"""
