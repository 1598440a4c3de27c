"""The examples run, and do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path

import httpx
import pytest

from examples import web_app
from penstock.testing.kit import in_memory

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

PRINTED = {
    "plain_script.py": "completed Hello, Ada!\ncompleted Hello, Grace!\ncompleted Hello, Barbara!",
    "long_job.py": r"(\d+%\n)+perceptron is trained, in attempt 1",
    # The thread notices in its own time.
    "cancellation.py": r"(?s)(?=.*download: interrupted)(?=.*compress: told to stop)"
    r"(?=.*cancel: \['cancelled', 'cancelled'\]\n.*jobs: \['cancelled', 'cancelled'\]).*",
    "request_response.py": "2 × tea: 900 cents\nfailed: Permanent: we have no cocoa\n"
    r"no answer within 0\.1 s; the job goes on without us\n690\n690",
    "tenants.py": "queued\nqueued\nacme bills Ada; completed: 1\nglobex bills Ada; completed: 1",
    "thumbnails.py": "6 thumbnails",
    "web_app.py": r"202 queued\n{'state': 'completed', 'result': \"sent 'Welcome' to .*\"}",
    "on_spark.py": r"3 completed by 2 workers\nLAKE! SPARK! TURBINE!",
    "sync_use.py": r"{'status': 'queued'} 202\nnotify: image 7 is done\nenqueued and done: 2",
}


def run(example: str, folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), *arguments]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_example_is_run_here() -> None:
    there = {path.name for path in EXAMPLES.glob("*.py")}
    assert there == set(PRINTED)


@pytest.mark.slow
@pytest.mark.parametrize("example", PRINTED)
def test_an_example_prints_what_it_should(example: str, tmp_path: Path) -> None:
    assert re.fullmatch(PRINTED[example] + "\n", run(example, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("example", ["plain_script.py", "sync_use.py"])
def test_an_example_runs_on_a_folder_too(example: str, tmp_path: Path) -> None:
    assert re.fullmatch(PRINTED[example] + "\n", run(example, tmp_path, "queue"))
    assert list((tmp_path / "queue" / "log").glob("*.jsonl"))


@pytest.mark.slow
def test_the_thumbnails_are_pictures(tmp_path: Path) -> None:
    run("thumbnails.py", tmp_path, str(tmp_path))
    pictures = sorted(tmp_path.glob("*.png"))
    assert len(pictures) == 6
    for picture in pictures:
        data = picture.read_bytes()
        width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
        start = data.index(b"IDAT") + 4
        length = int.from_bytes(data[start - 8 : start - 4])
        assert (width, height) == (32, 32)
        assert len(zlib.decompress(data[start : start + length])) == height * (1 + 3 * width)


async def test_the_web_app_enqueues_once_and_tells_what_became_of_it() -> None:
    transport = httpx.ASGITransport(web_app.web)
    async with (
        in_memory(web_app.app) as kit,
        httpx.AsyncClient(transport=transport, base_url="http://web") as http,
    ):
        answers = [await http.post("/sign-up", json={"email": "ada@example.com"}) for _ in "ab"]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert [answer.json()["status"] for answer in answers] == ["queued", "duplicate"]
        mail = await kit.assert_enqueued(web_app.send_email, to="ada@example.com")
        assert mail.queue == "mail"
        assert (await http.get(f"/jobs/{mail.id}")).json()["state"] == "pending"
        await kit.drain()
        assert (await http.get(f"/jobs/{mail.id}")).json()["state"] == "completed"
        assert (await http.get("/jobs/unknown")).status_code == 404
