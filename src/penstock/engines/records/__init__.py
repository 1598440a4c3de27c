"""The records engine: one record per job in a store that many processes share."""
