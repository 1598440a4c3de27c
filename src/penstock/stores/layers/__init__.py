"""Object stores around object stores: each adds one thing and passes the rest on."""
