"""What a seed stands for: how large the world is, what goes wrong in it, and how it is shaken."""

from __future__ import annotations

import random  # noqa: TID251 - a generator that is seeded, and nothing else
from dataclasses import dataclass

from penstock.kernel.retry import RetryPolicy
from penstock.kernel.settings import SettingsChanges
from penstock.testing.faults import Faults

LAYOUTS = ("log", "log", "log", "single", "memory")
"""As often as each is drawn: the log has the most to go wrong."""

TRIES_MAX = 6
"""How often anybody asks for one thing."""
RETRY = RetryPolicy(initial_seconds=0.2, max_seconds=2.0)
HUGE = "x" * 300
"""Too large to be inline where the limit is small."""
DAY_SECONDS = 86_400.0
_DAYS_EVERY = 11
_DAYS_AT = (1, 4)
"""In some of so many worlds, which are not those that were kept before because they failed."""

Luck = random.Random


@dataclass(frozen=True, slots=True)
class NodePlan:
    faults: Faults
    skew_seconds: float
    drift: float
    group_commit: bool
    workers: int
    lease_seconds: float
    is_follower: bool
    is_consumer: bool


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    layout: str
    nodes: tuple[NodePlan, ...]
    tenants: tuple[str, ...]
    queues: tuple[str, ...]
    types: tuple[str, ...]
    jobs: int
    chaos_seconds: float
    settings: SettingsChanges
    inline_bytes_max: int
    outcome_seconds_max: float
    tail_objects: int
    """A checkpoint is due after this many commits."""
    window_events: int
    """How many events `queue.json` keeps of the past."""
    bad_checkpoints: float
    crash_seconds: float
    """One crash in so many seconds, on average; 0: none."""
    pause_seconds: float
    jump_seconds_max: float
    """How far a wall clock may be set wrongly."""
    days: tuple[float, ...]
    """A process comes back each time with a clock that is so many days off, as the store's is."""
    nights: int
    """How often everybody sleeps for longer than the retention, one with a request on its lips."""
    meddling: float
    clients_retry: bool
    """Whether callers ask again with the same id; not where ended jobs leave at once."""
    reused_ids: float
    visits: int
    """How often each process has a caller that leaves, before and after healing each."""

    @property
    def clocks_off_seconds_max(self) -> float:
        """How far commit time may be from the world's: each wrong day may count, there and back."""
        return self.jump_seconds_max + 2 * DAY_SECONDS * len(self.days)


def draw(seed: int, layout: str | None = None) -> Plan:
    luck = random.Random(f"plan {seed}")
    chosen = layout or luck.choice(LAYOUTS)
    calm = luck.random() < 0.15
    count = 1 if luck.random() < 0.1 else luck.randint(2, 4)
    jump_seconds_max = luck.choice([0.0, 0.0, 1.0, 30.0])
    storms = luck.choice([0.0, 0.3, 1.0, 1.0, 2.0]) * (not calm)
    settings = _settings(luck)
    night = chosen == "log" and luck.random() < 0.4
    return Plan(
        seed=seed,
        layout=chosen,
        nodes=tuple(_node(luck, storms, chosen, is_first=number == 0) for number in range(count)),
        tenants=("acme", "bolt")[: luck.randint(1, 2)],
        queues=("default", "images")[: luck.randint(1, 2)],
        types=("ok", "ok", "slow", "poison", "flaky", "sleepy", "zombie", "returned"),
        jobs=luck.choice([4, 8, 12, 16, 24, 40]),
        chaos_seconds=luck.uniform(3.0, 25.0),
        settings=settings,
        inline_bytes_max=luck.choice([200, 256 * 1024]),
        outcome_seconds_max=luck.choice([3.0, 10.0, 60.0]),
        tail_objects=luck.choice([1, 2, 3, 5, 12]) if night else luck.choice([1, 3, 10, 4_096]),
        window_events=luck.choice([12, 40, 1_000]),
        bad_checkpoints=luck.choice([0.0, 0.0, 0.3]) * (not calm),
        crash_seconds=0.0 if calm else luck.choice([0.0, 3.0, 10.0]),
        pause_seconds=0.0 if calm else luck.choice([0.0, 4.0, 12.0]),
        jump_seconds_max=0.0 if calm else jump_seconds_max,
        days=_days(seed),
        nights=luck.randint(1, 3) if night else _nights_of_tasks(seed, chosen),
        meddling=luck.choice([0.0, 0.5, 2.0]),
        # A day that passes in no time takes along what tells a repeat from a new call.
        clients_retry=settings == _PATIENT and not _days(seed),
        reused_ids=luck.choice([0.0, 0.0, 0.3]),
        # Drawn apart, so that whatever else a seed stands for stays what it was.
        visits=random.Random(f"visits {seed}").choice([0, 3, 8]),
    )


def _nights_of_tasks(seed: int, layout: str) -> int:
    """Drawn apart as well: in some worlds what has ended gets old enough to be deleted."""
    return random.Random(f"nights {seed}").choice([0, 1, 2, 3]) if layout == "tasks" else 0


def _days(seed: int) -> tuple[float, ...]:
    if seed % _DAYS_EVERY not in _DAYS_AT:
        return ()
    return random.Random(f"days {seed}").choice([(1.0,), (-1.0,), (1.0, -1.0), (1.0, 1.0)])


_PATIENT = {"log_retention_seconds": 3_600.0, "result_ttl_seconds": 3_600.0}


def _settings(luck: Luck) -> SettingsChanges:
    settings: SettingsChanges = {"log_retention_seconds": 3_600.0}
    settings["result_ttl_seconds"] = luck.choice([0.0, 2.0, 3_600.0, 3_600.0, 3_600.0])
    if luck.random() < 0.4:
        return settings
    if luck.random() < 0.3:
        settings["dead_letter_ttl_seconds"] = luck.choice([1.0, 5.0])
    if luck.random() < 0.3:
        settings["archive_ttl_seconds"] = luck.choice([0.0, 3.0])
    if luck.random() < 0.2:
        settings["results_bytes_max"] = luck.choice([0, 60, 200])
    if luck.random() < 0.2:
        settings["finished_jobs_max"] = luck.choice([0, 2, 5])
    return settings


def _node(luck: Luck, storms: float, layout: str, *, is_first: bool) -> NodePlan:
    is_off = luck.random() < 0.1 and not is_first
    skew = luck.choice([0.0, luck.uniform(-1.9, 1.9)])
    return NodePlan(
        faults=_faults(luck, storms, layout),
        skew_seconds=luck.choice([-100.0, 100.0]) if is_off else skew,
        drift=luck.choice([0.0, 0.0, luck.uniform(-0.01, 0.01)]),
        group_commit=luck.random() < 0.8,
        workers=luck.randint(1, 2),
        lease_seconds=luck.choice([1.0, 3.0, 30.0]),
        is_follower=luck.random() < 0.4,
        is_consumer=luck.random() < 0.3,
    )


def _faults(luck: Luck, storms: float, layout: str) -> Faults:
    def chance(most: float) -> float:
        return luck.random() * most * storms

    # The archive of `single` is found by listing it; a stale listing hides what left lately.
    lists_lag = layout == "log"

    return Faults(
        put_error=chance(0.05),
        put_lost_request=chance(0.05),
        put_lost_answer=chance(0.08),
        put_late=chance(0.05),
        put_echo=chance(0.08),
        get_error=chance(0.05),
        get_slow=chance(0.02),
        get_truncated=chance(0.03),
        get_flipped=chance(0.03),
        list_error=chance(0.05),
        list_missed_recent=chance(0.1) * lists_lag,
        list_lost_page=chance(0.1) * lists_lag,
        delete_error=chance(0.05),
        delete_lost_answer=chance(0.05),
        throttling_begins=chance(0.005),
        throttling_seconds=luck.uniform(0.5, 8.0),
        denial_begins=chance(0.003),
        denial_seconds=luck.uniform(0.5, 5.0),
        latency_seconds=luck.choice([0.002, 0.02, 0.05, 0.4]),
        latency_spread=luck.choice([0.1, 0.5, 1.0]),
        answer_timeout_seconds=luck.choice([0.1, 2.0]),
        late_seconds_max=luck.choice([1.0, 15.0]),
        get_slow_seconds=luck.uniform(0.5, 5.0),
        list_page_keys=3,
    )
