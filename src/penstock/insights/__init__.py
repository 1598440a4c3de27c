"""Read models: what the command line and the dashboard show, as plain values without layout."""
