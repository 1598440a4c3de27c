"""`penstock worker`."""

from __future__ import annotations

from typing import Any

import typer

from penstock.app.loading import load_app
from penstock.cli import worker_options as said
from penstock.cli.logs import Level, start_logging
from penstock.cli.opening import run
from penstock.cli.options import Json, Tenant, refuse_unused
from penstock.cli.reloading import reload_forever
from penstock.cli.working import work
from penstock.errors import LoopExited
from penstock.worker.health import LOOPBACK
from penstock.worker.options import AUTO, CONCURRENCY, PROCESSES, WorkerOptions


def command(
    context: typer.Context,
    place: said.Place,
    queue: said.Queues = None,
    types: said.Types = None,
    unknown: said.UnknownTypes = said.Unknown.WAIT,
    concurrency: said.Concurrency = str(CONCURRENCY),
    concurrency_min: said.ConcurrencyMin = 8,
    concurrency_max: said.ConcurrencyMax = 1_024,
    processes: said.Processes = PROCESSES,
    lease_seconds: said.LeaseSeconds = 30,
    grace: said.Grace = 30,
    burst: said.Burst = False,
    jobs_max: said.JobsMax = None,
    recycle: said.Recycle = None,
    reload: said.Reload = False,
    monitor: said.Monitor = True,
    name: said.Name = None,
    monitor_round: said.MonitorRound = said.ROUND_SECONDS,
    monitor_repair: said.MonitorRepair = said.REPAIR_SECONDS,
    monitor_vacuum: said.MonitorVacuum = said.VACUUM_SECONDS,
    monitor_forget: said.MonitorForget = said.FORGET_SECONDS,
    log_level: said.LogLevel = Level.INFO,
    log_config: said.LogConfig = True,
    health: said.Health = None,
    health_host: said.HealthHost = LOOPBACK,
    on_spark: said.OnSpark = False,
    master: said.Master = "local[*]",
    tasks: said.Tasks = None,
    py_files: said.PyFiles = None,
    shards: said.Shards = None,
    url: said.Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """SIGTERM, SIGHUP or ctrl-c drains: nothing new is claimed, what runs may finish within
    --grace, the rest is given back; a second signal gives back at once. Exit code 0 in all these
    cases, 1 if the queue can't be opened, 2 if the app can't be loaded."""
    _refuse_unused(context, **context.params)
    if log_config:
        start_logging(as_json=json, level=log_level.value)
    if reload:
        raise typer.Exit(run(reload_forever()))
    given: dict[str, Any] = {
        "queues": tuple(queue) if queue else None, "types": tuple(types) if types else None,
        "unknown": unknown.value,
        "concurrency": concurrency if concurrency == AUTO else int(concurrency),
        "concurrency_min": concurrency_min, "concurrency_max": concurrency_max,
        "lease_seconds": lease_seconds, "grace_seconds": grace, "burst": burst,
        "jobs_max": jobs_max, "recycle": recycle, "monitor": monitor,
    }  # fmt: skip
    if on_spark:
        from penstock.cli.working_on_spark import work_on_spark

        work_on_spark(place, url, tenant, master, tasks, py_files or [], given, json=json)
    else:
        rounds = said.monitoring(monitor_round, monitor_repair, monitor_vacuum, monitor_forget)
        options = WorkerOptions(processes=processes, name=name, monitoring=rounds, **given)
        told_at = None if health is None else (health_host, health)
        _work(place, url, {"tenant": tenant, "shards": shards}, options, told_at, json=json)


def _refuse_unused(
    context: typer.Context,
    *,
    on_spark: bool,
    concurrency: str,
    monitor: bool,
    health: int | None,
    log_config: bool,
    **others: object,
) -> None:
    rounds = ("monitor_round", "monitor_repair", "monitor_vacuum", "monitor_forget")
    if on_spark:
        own = ("processes", "name", "health", "health_host", "shards", *rounds)
        refuse_unused(context, "with --on-spark", *own)
    else:
        refuse_unused(context, "without --on-spark", "master", "tasks", "py_files")
    if concurrency != AUTO:
        why = f"unless --concurrency is {AUTO}"
        refuse_unused(context, why, "concurrency_min", "concurrency_max")
    if not monitor:
        refuse_unused(context, "with --no-monitor", *rounds)
    if health is None:
        refuse_unused(context, "without --health", "health_host")
    if not log_config:
        refuse_unused(context, "with --no-log-config", "log_level")


def _work(
    place: str,
    url: str | None,
    said: dict[str, str | None],
    options: WorkerOptions,
    health: tuple[str, int] | None,
    *,
    json: bool,
) -> None:
    app = load_app(place)
    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if url is not None or given:
        app.relocate(url, **given)
    try:
        run(work(place, app, options, health, json=json))
    except SystemExit as error:
        raise LoopExited(error) from error
