"""What the jobs carry: checked where they are stored, and again where they run."""

from uuid import UUID

from pydantic import BaseModel, Field


class OrderPlaced(BaseModel):
    """For the mail that thanks for an order."""

    to: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    order: UUID
    total_cents: int = Field(gt=0)


class Charge(BaseModel):
    """For the payment of an order."""

    order: UUID
    card: str


class Photo(BaseModel):
    """For a product's pictures; ``width`` in pixels."""

    product: int
    width: int = Field(100, gt=0, le=4000)
