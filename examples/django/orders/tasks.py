"""Work that a request should not wait for. Workers find this file by its name."""

try:
    from django.tasks import task
except ImportError:  # before Django 6.0
    from django_tasks import task

from fencepost import Context, Retry
from fencepost.django import app
from orders.models import Order


@task(queue_name="mail", priority=10)
def send_receipt(order_id: int) -> str:
    """One of Django's own tasks."""
    order = Order.objects.get(pk=order_id)
    return f"receipt for {order.item}"


@app.task(retry=Retry(max_attempts=5, initial_delay="1s"), timeout="1m")
def ship(ctx: Context, order_id: int) -> int:
    """One of Fencepost's: retries, timeouts and everything else are its own."""
    Order.objects.filter(pk=order_id).update(is_shipped=True)
    return ctx.attempt


@app.task(isolation="process", timeout="1m")
def print_label(order_id: int) -> str:
    """In a child process, which is killed at its timeout. Django is set up there too."""
    order = Order.objects.filter(pk=order_id).first()
    return f"no order {order_id}" if order is None else f"label for {order.item}"
