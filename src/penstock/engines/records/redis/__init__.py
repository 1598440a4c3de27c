"""Records in Redis or Valkey."""

from importlib.util import find_spec

from penstock.errors import MissingExtra

if find_spec("redis") is None:
    raise MissingExtra("redis", "a queue in Redis")
