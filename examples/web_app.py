"""A web application that hands work to a queue and answers at once.

pip install penstock starlette httpx uvicorn
uvicorn web_app:web                       # and, elsewhere: penstock worker web_app:app
python examples/web_app.py                # both at once, and two requests, without a socket
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import penstock

app = penstock.App(os.environ.get("PENSTOCK_URL", "memory://"))


@app.task(queue="mail", max_attempts=8, key=lambda to, subject: f"{to} {subject}")
async def send_email(to: str, subject: str) -> str:
    return f"sent {subject!r} to {to}"


async def sign_up(request: Request) -> JSONResponse:
    """The mail is durable when the answer goes out, and sent some time later."""
    form = await request.json()
    receipt = await send_email.enqueue(to=form["email"], subject="Welcome")
    return JSONResponse({"job": receipt.id, "status": receipt.status}, status_code=202)


async def job(request: Request) -> JSONResponse:
    found = await (await app.queue()).get(request.path_params["id"])
    if found is None:
        return JSONResponse({"error": "no such job"}, status_code=404)
    return JSONResponse({"state": found.state, "result": found.result})


@asynccontextmanager
async def lifespan(web: Starlette) -> AsyncIterator[None]:
    async with app:
        yield


web = Starlette(
    routes=[Route("/sign-up", sign_up, methods=["POST"]), Route("/jobs/{id}", job)],
    lifespan=lifespan,
)


async def main() -> None:
    transport = httpx.ASGITransport(web)
    async with lifespan(web), httpx.AsyncClient(transport=transport, base_url="http://web") as http:
        answer = await http.post("/sign-up", json={"email": "ada@example.com"})
        print(answer.status_code, answer.json()["status"])
        await penstock.Worker(app, penstock.WorkerOptions(burst=True)).run()
        print((await http.get(f"/jobs/{answer.json()['job']}")).json())


if __name__ == "__main__":
    asyncio.run(main())
