"""The stored bytes, versioned: commits, checkpoints, and the codecs of payloads and results."""
