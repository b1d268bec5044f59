"""The routes of the example."""

from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/", views.place),
    path("orders/<int:order_id>/", views.show),
    path("receipts/<str:result_id>/", views.receipt),
]
