"""The ledger: the whole live queue in memory, made durable one batch at a time."""
