"""The objects of bulk imports: written, read when their jobs are admitted, deleted in the end."""
