"""What all tests share: the real servers."""

pytest_plugins = ["tests.servers.plugin"]
