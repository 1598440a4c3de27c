"""A site that enqueues a job for every request: Django's, served by threads and by gunicorn.

Where PENSTOCK_PRELOADED is set, it has used its queue before the server forks, at import.
"""

from __future__ import annotations

import os

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, JsonResponse
from django.urls import path

import penstock

app = penstock.App(os.environ.get("PENSTOCK_URL", "memory://"))


@app.task
async def greet(name: str) -> str:
    return f"hello {name}"


def greeted(request: HttpRequest) -> JsonResponse:
    receipt = greet.enqueue_sync(request.GET["name"])
    return JsonResponse({"id": receipt.id, "process": os.getpid()})


async def greeted_async(request: HttpRequest) -> JsonResponse:
    receipt = await greet.enqueue(request.GET["name"])
    return JsonResponse({"id": receipt.id, "process": os.getpid()})


urlpatterns = [path("sync", greeted), path("async", greeted_async)]


def application_of(module: str) -> WSGIHandler:
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=module, SECRET_KEY="of a test")
        django.setup(set_prefix=False)
    return WSGIHandler()


application = application_of(__name__)

if "PENSTOCK_PRELOADED" in os.environ:
    greet.enqueue_sync("before the fork")
