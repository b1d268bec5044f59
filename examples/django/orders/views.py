"""The shop over HTTP: place an order, look at it, read its receipt."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from orders.models import Order
from orders.tasks import send_receipt, ship


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Store an order and its two jobs: all or none."""
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"])
        receipt = send_receipt.enqueue(order.pk)
        # In PostgreSQL this is part of the transaction; in SQLite it waits for the commit.
        transaction.on_commit(lambda: ship.submit(order.pk))
    return JsonResponse({"id": order.pk, "receipt": receipt.id}, status=201)


@require_GET
def show(request: HttpRequest, order_id: int) -> JsonResponse:
    """Show an order."""
    order = Order.objects.get(pk=order_id)
    return JsonResponse({"item": order.item, "is_shipped": order.is_shipped})


@require_GET
def receipt(request: HttpRequest, result_id: str) -> JsonResponse:
    """Show what became of a receipt."""
    result = send_receipt.get_result(result_id)
    text = result.return_value if result.is_finished else None
    return JsonResponse({"status": result.status, "receipt": text})
