"""Layout `log`: an append-only log of immutable commit objects, with checkpoints."""
