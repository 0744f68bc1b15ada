"""Both approximations."""

import pytest
from tests.gp.common import INFERENCES


@pytest.fixture(params=INFERENCES)
def inference(request):
    return request.param
