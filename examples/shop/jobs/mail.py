"""Mails. A job's id is the Message-ID, so that a mail that is sent again can be known as the same one."""

import os
import smtplib
from email.message import EmailMessage

from shop.payloads import OrderPlaced

from dilamme import Context, Retry, job


@job("mail.order_placed", max_attempts=5, timeout_seconds=30)
def order_placed(payload: OrderPlaced, context: Context) -> None:
    send(payload.to, f"Your order {payload.order}", f"Thank you! It comes to {payload.total_cents / 100:.2f}.", context)


@job("mail.receipt", max_attempts=5, timeout_seconds=30)
def receipt(payload: OrderPlaced, context: Context) -> None:
    send(payload.to, f"Paid: {payload.order}", f"We have received {payload.total_cents / 100:.2f}.", context)


def send(to: str, subject: str, text: str, context: Context) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = os.environ["MAIL_FROM"], to, subject
    message["Message-ID"] = f"<{context.job_id}@shop.example.com>"
    message.set_content(text)
    try:
        with smtplib.SMTP(os.environ["SMTP_HOST"], int(os.environ["SMTP_PORT"]), timeout=10) as server:
            server.send_message(message)
    except smtplib.SMTPResponseException as error:
        if 400 <= error.smtp_code < 500:
            raise Retry(f"the server is busy: {error.smtp_code}", after=60) from error
        raise
