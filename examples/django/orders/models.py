"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order, and whether it was shipped."""

    item = models.CharField(max_length=100)
    is_shipped = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.item} ({self.pk})"
