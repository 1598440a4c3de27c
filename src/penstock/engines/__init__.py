"""How a queue is kept: implementations of the `Backend` port."""
