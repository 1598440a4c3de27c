"""What every store and every backend must do, as tests that users can run over their own."""

import pytest

# Or a failed `assert` in here would not show its values.
pytest.register_assert_rewrite(f"{__name__}.backend", f"{__name__}.store")
