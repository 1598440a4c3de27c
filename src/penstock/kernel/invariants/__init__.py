"""The invariants: what must hold of every queue at all times, as named predicates.

Each takes plain values (the committed log, the calls of clients, states) and returns its
violations; none does I/O. The same functions serve the simulation, `penstock doctor` and the
pipeline.

     1  told_is_durable                every acknowledged enqueue is in the log
     1  publications_are_told          of bulk imports, the same
     2  jobs_were_asked_for            no job from nowhere
     2  lives_begin_once               nor an event of one
     3  operations_happen_once         one operation, one job, one claim's leases
     3  imports_happen_once            one run, each of its rows one job
     4  leases_are_exclusive           at most one live lease per job
     5  tokens_increase                tokens are unique and grow
   5-6  only_the_current_token_counts  what an old token asks is refused
     7  terminal_is_final              but for a recorded replay
     8  cancel_wins                    or says what it met
     9  attempts_are_counted           attempts, due times, failures
    10  keys_are_unique                one live job per key and scope
    11  claims_follow_the_order        priority, due time, position
    12  pauses_hold                    no claim after a pause
    14  counts_are_conserved           no job is lost from the count
    14  checkpoints_are_folds          byte for byte
    15  log_is_a_chain                 contiguous, monotone, unbroken
    15  times_are_the_stores           clocks are calibrated
    15  deletions_are_covered          only what a checkpoint covers goes
    16  reads_are_fresh                nobody sees the past, or another's result
    16  followers_see_everything       once, in order, without a gap
    17  everything_ended               after healing
    17  attempts_have_workers          nobody idle holds a lease
    18  same_observations              the same on every backend
    20  values_can_be_read             what is stored, by everybody
    19  leases_are_given_back          none is held by nobody
"""

from __future__ import annotations

from penstock.kernel.invariants.history import (
    Stories,
    cancel_wins,
    followers_see_everything,
    jobs_were_asked_for,
    leases_are_given_back,
    only_the_current_token_counts,
    operations_happen_once,
    reads_are_fresh,
    told_is_durable,
)
from penstock.kernel.invariants.imports import imports_happen_once, publications_are_told
from penstock.kernel.invariants.log import (
    attempts_are_counted,
    keys_are_unique,
    leases_are_exclusive,
    lives_begin_once,
    log_is_a_chain,
    pauses_hold,
    terminal_is_final,
    times_are_the_stores,
    tokens_increase,
    values_can_be_read,
)
from penstock.kernel.invariants.order import claims_follow_the_order
from penstock.kernel.invariants.record import Call, Committed, Violation
from penstock.kernel.invariants.states import (
    Deletion,
    Tally,
    attempts_have_workers,
    checkpoints_are_folds,
    counts_are_conserved,
    deletions_are_covered,
    everything_ended,
    same_observations,
)

__all__ = [
    "Call",
    "Committed",
    "Deletion",
    "Stories",
    "Tally",
    "Violation",
    "attempts_are_counted",
    "attempts_have_workers",
    "cancel_wins",
    "checkpoints_are_folds",
    "claims_follow_the_order",
    "counts_are_conserved",
    "deletions_are_covered",
    "everything_ended",
    "followers_see_everything",
    "imports_happen_once",
    "jobs_were_asked_for",
    "keys_are_unique",
    "leases_are_exclusive",
    "leases_are_given_back",
    "lives_begin_once",
    "log_is_a_chain",
    "only_the_current_token_counts",
    "operations_happen_once",
    "pauses_hold",
    "publications_are_told",
    "reads_are_fresh",
    "same_observations",
    "terminal_is_final",
    "times_are_the_stores",
    "told_is_durable",
    "tokens_increase",
    "values_can_be_read",
]
