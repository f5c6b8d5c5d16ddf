"""Payments: a provider that fails now and then, and charges once for each key."""

import json
import os
import urllib.error
import urllib.request

from shop.payloads import Charge, OrderPlaced

from dilamme import Context, Fail, job
from jobs.mail import receipt


@job("payment.charge", max_attempts=4, timeout_seconds=30)
def charge(payload: Charge, context: Context) -> str:
    """Charges the card, marks the order, and stores the receipt's mail: the last two in one transaction."""
    with context.connect() as connection:
        order = connection.execute(
            "SELECT email, total_cents, state FROM orders WHERE id = %s", [payload.order]
        ).fetchone()
    if order is None:
        raise Fail(f"there is no order {payload.order}")
    email, total_cents, state = order
    if state == "paid":
        return "was paid before"  # by an attempt whose worker was lost after its commit
    reference = ask_provider(payload.card, total_cents, str(context.job_id))
    with context.connect() as connection:
        connection.execute("UPDATE orders SET state = 'paid' WHERE id = %s", [payload.order])
        receipt.submit(connection, OrderPlaced(to=email, order=payload.order, total_cents=total_cents))
    return reference


def ask_provider(card: str, total_cents: int, key: str) -> str:
    """The provider's reference. An answer of 5xx is raised, and so retried; a refused card is not."""
    body = json.dumps({"card": card, "totalCents": total_cents}).encode()
    request = urllib.request.Request(f"{os.environ['PAYMENT_URL']}/charges", body, {"Idempotency-Key": key})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            reference: str = json.load(answer)["reference"]
            return reference
    except urllib.error.HTTPError as error:
        if error.code == 402:
            raise Fail("the card was refused") from error
        raise
