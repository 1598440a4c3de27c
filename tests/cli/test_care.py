"""Export and import, vacuum, doctor, bench."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.client.blocking import BlockingQueue
from penstock.stores.folder import PRIVATE_FOLDER
from tests.cli.running import Penstock, got


def test_jobs_come_out_as_lines(run: Penstock, failed_id: str) -> None:
    ran = run("export")
    assert ran.object["id"] == failed_id
    assert ran.stderr == "exported 1 job\n"


def test_an_export_to_a_file_counts_what_it_wrote(
    run: Penstock, failed_id: str, folder: Path
) -> None:
    file = folder / "out.jsonl"
    ran = run("export", "--jobs", "--events", "--output", str(file), "--json")
    assert ran.object == {"jobs": 1, "events": 3}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.get("event") for line in lines] == [None, "enqueued", "claimed", "failed"]
    assert [path.name for path in folder.glob("out*")] == ["out.jsonl"]


def test_an_export_to_a_folder_is_refused(run: Penstock, failed_id: str, folder: Path) -> None:
    ran = run("export", "--output", str(folder))
    assert (ran.code, ran.stderr) == (
        2,
        f"error: --output {folder}: it is a folder; name a file in it\n",
    )


def test_an_export_into_a_folder_that_is_missing_says_so(
    run: Penstock, failed_id: str, folder: Path
) -> None:
    missing = folder / "missing"
    ran = run("export", "--output", str(missing / "out.jsonl"))
    assert (ran.code, ran.stderr) == (
        2,
        f"error: --output {missing / 'out.jsonl'}: there is no folder {missing}; make it first\n",
    )
    named = run("export", "--output", f"{missing}/")
    assert named.code == 2
    assert f"'{missing}/' names a folder; name a file in it" in named.stderr
    within = run("export", "--output", str(folder / "tasks.py" / "out"))
    assert (within.code, "tasks.py is no folder" in within.stderr) == (2, True)
    assert not missing.exists()


def test_an_export_to_a_dash_goes_to_stdout(
    run: Penstock, failed_id: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert run("export", "--output", "-").object["id"] == failed_id
    assert not (folder / "-").exists()
    assert "--json prints the counts" in run("export", "--output", "-", "--json").stderr


def test_an_export_to_a_pipe_is_written_into_the_pipe(
    run: Penstock, failed_id: str, folder: Path
) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        try:
            ran = run("export", "--output", str(pipe))
            assert (ran.code, pipe.is_fifo()) == (0, True)
            assert json.loads(reader.communicate()[0])["id"] == failed_id
        finally:
            reader.kill()


def test_an_export_whose_reader_stops_reading_says_so(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("work", "x" * 200_000)
    pipe = folder / "pipe"
    os.mkfifo(pipe)

    with subprocess.Popen(["head", "-c", "1", str(pipe)], stdout=subprocess.DEVNULL) as reader:
        try:
            ran = run("export", "--output", str(pipe))
        finally:
            reader.kill()
    assert (ran.code, ran.stderr) == (
        1,
        f"error: --output {pipe}: whoever read it has stopped reading\n",
    )


def test_an_export_to_a_symlink_replaces_the_file_that_it_points_to(
    run: Penstock, failed_id: str, folder: Path
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    real, link = elsewhere / "real", folder / "link"
    real.write_text("yesterday's")
    link.symlink_to(real)
    run("export", "--output", str(link))
    assert link.readlink() == real
    assert json.loads(real.read_text())["id"] == failed_id
    assert list(elsewhere.iterdir()) == [real]


def test_an_export_takes_over_who_may_read_the_file_and_no_file_beside_it(
    run: Penstock, failed_id: str, folder: Path
) -> None:
    secret, neighbour = folder / "out", folder / "out.partial"
    secret.touch(0o600)
    neighbour.write_text("somebody's own")
    run("export", "--output", str(secret))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert neighbour.read_text() == "somebody's own"


def test_an_export_that_fails_leaves_the_file_as_it_was(run: Penstock, folder: Path) -> None:
    kept = folder / "out"
    kept.write_text("yesterday's")
    assert run("export", "--output", str(kept)).code == 1
    assert kept.read_text() == "yesterday's"
    assert not list(folder.glob("*.partial")) + list(folder.glob(".*.partial"))


def test_an_export_to_the_file_that_stdout_goes_to_is_part_of_it(
    run: Penstock, failed_id: str, folder: Path
) -> None:
    said = folder / "all"
    export = [sys.executable, "-m", "penstock", "export", "--url", run.url, "--output"]
    with said.open("w") as file:
        subprocess.run([*export, str(said)], stdout=file, check=True)
        subprocess.run(["echo", "the end"], stdout=file, check=True)
    first, last = said.read_text().splitlines()
    assert (json.loads(first)["id"], last) == (failed_id, "the end")


def test_an_export_can_be_narrowed(run: Penstock, queue: BlockingQueue, failed_id: str) -> None:
    queue.enqueue("add", 1, id="a")
    assert run("export", "--state", "pending").object["id"] == "a"
    assert len(run("export", "--events", "--queue", "images").lines) == 3


def test_what_was_exported_can_be_imported_and_twice_is_once(
    run: Penstock, queue: BlockingQueue, failed_id: str, folder: Path
) -> None:
    queue.enqueue("add", {"a": 1}, id="a", key="k", priority=4, meta={"m": 1})
    queue.enqueue("blob", b"\x00\xff", id="b")
    queue.enqueue("packed", {"data": b"\x01"}, id="c", codec="msgpack")
    file = folder / "out.jsonl"
    run("export", "--output", str(file))
    other = Penstock(str(folder / "other"))
    first = other("import", str(file), "--json").object
    assert first == {"imported": 3, "present": 0, "skipped": 1, "failed": 0}
    assert other("import", str(file)).stdout.startswith("imported 0 jobs; 3 were there already")
    with penstock.open_sync(other.url) as there:
        job = got(there, "a")
        assert (job.payload, job.key, job.priority, job.meta) == ({"a": 1}, "k", 4, {"m": 1})
        assert got(there, "b").payload == b"\x00\xff"
        assert got(there, "c").payload == {"data": b"\x01"}
    dead = other("import", "--dead-letters", "--json", input=file.read_text()).object
    assert (dead["imported"], dead["present"]) == (1, 3)


@pytest.mark.parametrize("layout", ["log", "single"])
def test_completed_jobs_come_with_what_the_log_has_of_them(folder: Path, layout: str) -> None:
    here, there = Penstock(f"{folder}/here?layout={layout}"), Penstock(f"{folder}/there")
    with penstock.open_sync(here.url) as queue:
        payloads = {"a": {"n": 1}, "b": b"\x00\xff", "c": None}
        for id, payload in payloads.items():
            queue.enqueue("add", payload, id=id)
        for job in queue.claim(3):
            queue.ack(job, {"of": job.id})
        queue.enqueue("add", {"n": 2}, id="waiting")
    exported = here("export", "--output", str(folder / "out.jsonl"), "--json")
    assert exported.object == {"jobs": 4}
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    values = {line["id"]: (line["payload"], line["result"]) for line in lines}
    assert values == {
        "a": ({"n": 1}, {"of": "a"}),
        "b": ("AP8=", {"of": "b"}),
        "c": (None, {"of": "c"}),
        "waiting": ({"n": 2}, None),
    }
    counts = there("import", str(folder / "out.jsonl"), "--json").object
    assert counts == {"imported": 1, "present": 0, "skipped": 3, "failed": 0}
    assert there("export").object["payload"] == {"n": 2}


def test_large_payloads_survive_an_export_and_an_import(folder: Path) -> None:
    url = f"{folder}/here?offload=on&payload_bytes_max=10"
    with penstock.open_sync(url) as queue:
        queue.enqueue("add", "x" * 100, id="large")
    exported = Penstock(url)("export")
    assert exported.object["payload"] == "x" * 100
    there = Penstock(f"{folder}/there")
    there("import", input=exported.stdout)
    assert there("export").object["payload"] == "x" * 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "--events", "--state", "failed"], "--state has no effect on events"),
        (["history", "a", "--lives", "--life", "1"], "--life has no effect beside --lives"),
        (["init", "a", "--url", "b"], "URL has no effect beside --url"),
        (["init", "--versioning", "--allow-no-versioning"], "--allow-no-versioning has no effect"),
        (["migrate", "a", "b", "--abort", "--dry-run"], "--dry-run has no effect beside --abort"),
        (["migrate", "a", "b", "--abort", "--batch", "9"], "--batch has no effect beside --abort"),
        (["monitor", "--once", "--monitor-vacuum", "9"], "--monitor-vacuum has no effect"),
        (["demo", "--no-report", "--report", "a"], "--report has no effect beside --no-report"),
        (["enqueue", "--file", "-", "--priority", "1"], "--priority has no effect with --file"),
        (["enqueue", "a", "1", "--file", "-"], "JSON has no effect with --file"),
        (["enqueue", "a", "--file", "-", "--wait", "1"], "--wait has no effect with --file"),
        (["enqueue", "a", "--file", "-", "--id", "b"], "--id has no effect with --file"),
        (["enqueue", "a", "1", "--unique-seconds", "9"], "no effect without --key"),
        (["worker", "tasks", "--tasks", "1"], "--tasks has no effect without --on-spark"),
        (["worker", "tasks", "--on-spark", "--name", "a"], "--name has no effect with --on-spark"),
        (["worker", "tasks", "--concurrency-max", "9"], "unless --concurrency is auto"),
        (["worker", "tasks", "--no-monitor", "--monitor-round", "9"], "with --no-monitor"),
        (["worker", "tasks", "--health-host", "a"], "--health-host has no effect without --health"),
        (["worker", "tasks", "--no-log-config", "--log-level", "info"], "with --no-log-config"),
    ],
)  # fmt: skip
def test_an_option_that_would_have_no_effect_is_refused(
    run: Penstock,
    url: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(folder)
    ran = run(*arguments, input="")
    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert not Path(url).exists()


def test_a_variable_that_has_no_effect_on_this_command_is_none_of_its_business(
    run: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_MONITOR_VACUUM", "9")
    monkeypatch.setenv("PENSTOCK_SCHEMA", "of_another_queue")
    run("enqueue", "add", "1")
    assert run("monitor", "--once").code == 0


def test_an_import_needs_ids(run: Penstock) -> None:
    ran = run("import", input='{"type": "a"}\n')
    assert ran.code == 2
    assert "line 1 of stdin: there is no id" in ran.stderr


def test_vacuum_says_what_it_deleted(run: Penstock, queue: BlockingQueue) -> None:
    assert run("vacuum", run.url).stdout.startswith("deleted 0 log objects")
    assert run("vacuum", "--json").object["log_objects"] == 0


def test_doctor_finds_a_healthy_queue_healthy(run: Penstock, failed_id: str) -> None:
    ran = run("doctor", run.url)
    assert ran.code == 0
    assert "0 failed" in ran.stdout
    for words in ("conditional create", "read after write", "clock", "latency", "log is a chain"):
        assert words in ran.stdout
    checks = run("doctor", "--url", run.url, "--json").lines
    assert {check["verdict"] for check in checks} == {"ok"}
    assert {check["area"] for check in checks} == {"store", "stored", "now"}


def test_doctor_leaves_nothing_behind_and_makes_no_queue(run: Penstock, url: str) -> None:
    checks = run("doctor", "--probe", "--json").lines
    assert checks[-1]["detail"] == "there is no queue here yet"
    assert stored_objects(url) == []


@pytest.mark.parametrize("arguments", [[], ["--quick"], ["--json"]])
def test_doctor_touches_nothing_where_no_queue_is(
    run: Penstock, url: str, arguments: list[str]
) -> None:
    ran = run("doctor", *arguments)
    assert (ran.code, ran.stdout) == (1, "")
    assert "there is no queue at" in ran.stderr
    assert not Path(url).exists()


def test_a_quick_check_up_leaves_the_log_alone(run: Penstock, failed_id: str) -> None:
    assert {check["area"] for check in run("doctor", "--quick", "--json").lines} == {"store"}


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_doctor_finds_a_damaged_log(
    run: Penstock, queue: BlockingQueue, failed_id: str, url: str, damage: str
) -> None:
    queue.close()
    commit = sorted(Path(url, "log").iterdir())[1]
    if damage == "altered":
        commit.write_bytes(commit.read_bytes().replace(b"w1", b"w2"))
    else:
        commit.unlink()
    ran = run("doctor", run.url)
    assert ran.code == 1
    assert "fail" in ran.stdout


def test_doctor_sees_a_lease_that_nobody_takes_back(run: Penstock, queue: BlockingQueue) -> None:
    queue.configure(clock_skew_seconds=0)
    queue.enqueue("add", 1)
    queue.claim(1, lease_seconds=0)
    checks = {check["check"]: check["verdict"] for check in run("doctor", "--json").lines}
    assert (checks["dead leases"], checks["types served"]) == ("warn", "ok")


def test_doctor_reads_layout_single(folder: Path) -> None:
    run = Penstock(f"file://{folder / 'single'}?layout=single")
    run("enqueue", "add", "1")
    checks = {check["check"]: check for check in run("doctor", "--json").lines}
    assert checks["queue.json"]["detail"].startswith("1 job ")


def test_doctor_says_why_a_store_cannot_be_reached(folder: Path) -> None:
    ran = Penstock(str(folder / "tasks.py"))("doctor", "--probe")
    assert ran.code == 1
    assert "reachable" in ran.stdout


def test_doctor_has_nothing_to_examine_in_memory(run: Penstock) -> None:
    assert run("doctor", "memory://").code == 2


def test_bench_measures_and_cleans_up(run: Penstock, url: str) -> None:
    ran = run("bench", run.url, "--jobs", "100")
    assert [line.split()[0] for line in ran.stdout.splitlines()[2:5]] == ["enqueue", "claim", "ack"]
    phases = run("bench", "--jobs", "50", "--json").lines
    assert [phase["phase"] for phase in phases] == ["enqueue", "claim", "ack"]
    assert all(phase["jobs_per_second"] > 0 for phase in phases)
    assert stored_objects(url) == []


def stored_objects(url: str) -> list[str]:
    files = [path for path in Path(url).rglob("*") if path.is_file()]
    return [path.name for path in files if PRIVATE_FOLDER not in path.parts]
