"""The queue that people hold: one face for every backend."""
