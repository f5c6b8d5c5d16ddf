"""The web application: FastAPI and async SQLAlchemy. An order, its mail and its payment are stored in one transaction."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field
from sqlalchemy import insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from shop.payloads import Charge, OrderPlaced
from shop.tables import orders, products

SUBMIT = text("SELECT dilamme.submit(:type, CAST(:payload AS jsonb), priority => :priority)")


class Order(BaseModel):
    """What a customer sends."""

    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")]
    product: int
    quantity: Annotated[int, Field(gt=0)]
    card: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1)
    app.state.engine = create_async_engine(url)
    yield
    await app.state.engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(order: Order, request: Request) -> dict[str, UUID]:
    """Stores the order, the mail and the payment: all of them, or none."""
    order_id = uuid4()
    async with request.app.state.engine.begin() as connection:
        price = await connection.scalar(select(products.c.price_cents).where(products.c.id == order.product))
        if price is None:
            raise HTTPException(404, f"there is no product {order.product}")
        total = price * order.quantity
        row = {"id": order_id, "email": order.email, "product": order.product, "total_cents": total}
        await connection.execute(insert(orders).values(row))
        await submit(connection, "mail.order_placed", OrderPlaced(to=order.email, order=order_id, total_cents=total), 1)
        await submit(connection, "payment.charge", Charge(order=order_id, card=order.card), 2)
        left = await connection.scalar(
            update(products)
            .where(products.c.id == order.product)
            .values(stock=products.c.stock - order.quantity)
            .returning(products.c.stock)
        )
        if left is None or left < 0:
            raise HTTPException(409, "sold out")  # which takes the order, the mail and the payment back
    return {"id": order_id}


async def submit(connection: AsyncConnection, type_: str, payload: BaseModel, priority: int) -> None:
    """Stores a job in the transaction that the connection is in; it runs at the next tick, a second at the most."""
    await connection.execute(SUBMIT, {"type": type_, "payload": payload.model_dump_json(), "priority": priority})
