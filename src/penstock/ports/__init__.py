"""The protocols that the layers meet at, and the values that cross them."""
