"""Layout `single`: the whole queue in one readable object, replaced by compare-and-set."""
