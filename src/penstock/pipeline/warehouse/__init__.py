"""Tables on a folder or in a bucket, each with its cursor: the last commit that it contains."""
