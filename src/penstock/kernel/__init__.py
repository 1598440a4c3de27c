"""The rules of the queue: pure functions and values, no I/O, no clock, no luck of their own."""
