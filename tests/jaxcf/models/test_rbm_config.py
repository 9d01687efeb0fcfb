"""What an RBM's Config accepts."""

import pytest

from jaxcf.models.rbm.config import Config
from jaxfit.errors import UserError


def test_invalid_configurations_are_refused():
    with pytest.raises(UserError, match="fixed values"):
        Config(num_items=5, num_values=0)
    with pytest.raises(UserError, match="at least one step"):
        Config(num_items=5, cd_steps=(1, 0))
    assert Config(num_items=5, cd_steps=[1, 3]) == Config(num_items=5, cd_steps=(1, 3))
