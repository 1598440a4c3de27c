"""Running an app's tasks: the loop, where handlers run, heartbeats, and how an attempt ends."""
