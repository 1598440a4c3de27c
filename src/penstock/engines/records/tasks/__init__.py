"""Layout `tasks`: one object per job on any object store."""
