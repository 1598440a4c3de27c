"""Moving a whole queue to another address, between any two backends."""
