"""A product's pictures: a DAG of one job that looks at the photo, one for each width, and one that joins them."""

import io

import psycopg
from PIL import Image
from pydantic import BaseModel
from shop.payloads import Photo

import dilamme
from dilamme import Context, Fail, job

WIDTHS = (64, 256, 1024)


class Size(BaseModel):
    """Of a picture, in pixels."""

    width: int
    height: int


def order_pictures(connection: "psycopg.Connection", product: int) -> None:
    """Stores the whole DAG in the caller's transaction."""
    jobs = [inspect.job(Photo(product=product), ref="inspect")]
    jobs += [
        resize.job(Photo(product=product, width=width), ref=f"resize-{width}", dependency_refs=["inspect"])
        for width in WIDTHS
    ]
    refs = [f"resize-{width}" for width in WIDTHS]
    jobs.append(publish.job(Photo(product=product), dependency_refs=refs, on_dependency_failure="cancel"))
    dilamme.submit_many(connection, jobs)


@job("images.inspect")
def inspect(payload: Photo, context: Context) -> Size:
    with Image.open(io.BytesIO(load(payload.product, context))) as photo:
        return Size(width=photo.width, height=photo.height)


@job("images.resize", timeout_seconds=60)
def resize(payload: Photo, context: Context) -> Size:
    with Image.open(io.BytesIO(load(payload.product, context))) as photo:
        photo.thumbnail((payload.width, 10 * payload.width))
        png = io.BytesIO()
        photo.save(png, "PNG")
    with context.connect() as connection:
        connection.execute(
            "INSERT INTO pictures (product, width, png) VALUES (%s, %s, %s)"
            " ON CONFLICT (product, width) DO UPDATE SET png = excluded.png",
            [payload.product, payload.width, png.getvalue()],
        )
    return Size(width=photo.width, height=photo.height)


@job("images.publish")
def publish(payload: Photo, context: Context) -> list[int]:
    return sorted(size["width"] for size in context.dependency_results.values())


def load(product: int, context: Context) -> bytes:
    with context.connect() as connection:
        found = connection.execute("SELECT photo FROM products WHERE id = %s", [product]).fetchone()
    if found is None or found[0] is None:
        raise Fail(f"product {product} has no photo")
    return bytes(found[0])
