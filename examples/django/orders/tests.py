"""How a project tests its jobs: `python manage.py test`."""

from django.test import TestCase, TransactionTestCase

from fencepost.django.testing import jobs_in_memory, stored_jobs
from orders.models import Order
from orders.tasks import send_receipt, ship


class PlacingTests(TestCase):
    """In the transaction of a TestCase, jobs are in memory."""

    def test_an_order_has_a_receipt_and_is_shipped(self) -> None:
        with jobs_in_memory() as jobs:
            with self.captureOnCommitCallbacks(execute=True):
                response = self.client.post("/orders/", {"item": "tea"})
            order = Order.objects.get(pk=response.json()["id"])
            self.assertEqual([job.payload["args"] for job in jobs.list(send_receipt)], [[order.pk]])
            self.assertEqual([job.payload for job in jobs.list(ship)], [{"order_id": order.pk}])

    def test_jobs_run_in_the_transaction_of_the_test(self) -> None:
        order = Order.objects.create(item="tea")
        with jobs_in_memory() as jobs:
            ship.submit(order.pk)
            result = send_receipt.enqueue(order.pk)
            self.assertEqual(len(jobs.run()), 2)
            result.refresh()
            self.assertEqual(result.return_value, "receipt for tea")
        order.refresh_from_db()
        self.assertTrue(order.is_shipped)

    def test_an_exception_of_a_job_is_raised_here(self) -> None:
        with jobs_in_memory() as jobs:
            send_receipt.enqueue(404)
            with self.assertRaises(Order.DoesNotExist):
                jobs.run()


class StoredTests(TransactionTestCase):
    """With commits of its own, a test uses the store of the test database."""

    def test_an_order_and_its_jobs_are_committed_together(self) -> None:
        with stored_jobs() as jobs:
            response = self.client.post("/orders/", {"item": "tea"})
            self.assertEqual(len(jobs.run()), 2)
        receipt = self.client.get(f"/receipts/{response.json()['receipt']}/").json()
        self.assertEqual(receipt, {"status": "SUCCESSFUL", "receipt": "receipt for tea"})
        self.assertTrue(Order.objects.get().is_shipped)

    def test_a_test_begins_without_the_jobs_of_others(self) -> None:
        with stored_jobs():
            send_receipt.enqueue(1)
        with stored_jobs() as jobs:
            self.assertEqual(jobs.run(), [])
