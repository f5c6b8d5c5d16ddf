"""Pictures: each step as a plain function, and the whole DAG."""

import io

import pytest
from jobs.images import WIDTHS, Size, inspect, order_pictures, publish, resize
from PIL import Image
from shop.payloads import Photo

from dilamme import Fail
from dilamme.testing import Database, Worker, context

pytestmark = pytest.mark.usefixtures("products")


def test_a_photo_is_looked_at() -> None:
    assert inspect(Photo(product=1), context()) == Size(width=800, height=600)


@pytest.mark.parametrize(("width", "size"), [(64, (64, 48)), (256, (256, 192)), (1024, (800, 600))])
def test_a_picture_keeps_its_proportions_and_never_grows(
    dilamme_db: Database, width: int, size: tuple[int, int]
) -> None:
    assert resize(Photo(product=1, width=width), context()) == Size(width=size[0], height=size[1])
    (png,) = dilamme_db.connection.execute("SELECT png FROM pictures").fetchone() or (b"",)
    assert Image.open(io.BytesIO(png)).size == size


def test_a_picture_that_is_made_again_is_one(dilamme_db: Database) -> None:
    for _ in range(2):
        resize(Photo(product=1, width=64), context())
    assert dilamme_db.connection.execute("SELECT count(*) FROM pictures").fetchone() == (1,)


def test_the_widths_are_published_in_order() -> None:
    sizes = {context().job_id: {"width": width, "height": 1} for width in (256, 64)}
    assert publish(Photo(product=1), context(dependency_results=sizes)) == [64, 256]


@pytest.mark.parametrize("product", [2, 3])
def test_a_product_without_a_photo_fails_for_good(product: int) -> None:
    with pytest.raises(Fail, match=f"product {product} has no photo"):
        inspect(Photo(product=product), context())


def test_the_dag_runs_in_order(dilamme_db: Database, dilamme_worker: Worker) -> None:
    order_pictures(dilamme_db.connection, 1)
    ran = dilamme_worker.run_due()
    assert [job.type for job in ran] == ["images.inspect", *["images.resize"] * 3, "images.publish"]
    assert ran[-1].result == [64, 256, 800]
    assert dilamme_db.connection.execute("SELECT count(*) FROM pictures").fetchone() == (len(WIDTHS),)


def test_without_a_photo_nothing_is_published(dilamme_db: Database, dilamme_worker: Worker) -> None:
    order_pictures(dilamme_db.connection, 2)
    dilamme_worker.drain_to_idle()
    assert [job.status for job in dilamme_worker.submitted("images.inspect")] == ["dead"]
    assert {job.status for job in dilamme_worker.submitted("images.resize")} == {"pending"}
    assert dilamme_db.connection.execute("SELECT count(*) FROM pictures").fetchone() == (0,)
