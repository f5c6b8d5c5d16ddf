"""The shop's own tables, in the database that holds the jobs too."""

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, MetaData, Table, Text, Uuid

metadata = MetaData()
products = Table(
    "products",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("stock", Integer, nullable=False),
    Column("price_cents", Integer, nullable=False),
    Column("photo", LargeBinary),
)
orders = Table(
    "orders",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("email", Text, nullable=False),
    Column("product", ForeignKey("products.id"), nullable=False),
    Column("total_cents", Integer, nullable=False),
    Column("state", Text, nullable=False, server_default="placed"),
)
pictures = Table(
    "pictures",
    metadata,
    Column("product", ForeignKey("products.id"), primary_key=True),
    Column("width", Integer, primary_key=True),
    Column("png", LargeBinary, nullable=False),
)
