"""From events to tables: pure functions from frames to frames."""
