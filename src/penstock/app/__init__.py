"""Tasks: functions that can be enqueued, and the app that knows them."""
