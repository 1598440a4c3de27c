"""Where the bytes are: the implementations of `penstock.ports.store`."""
