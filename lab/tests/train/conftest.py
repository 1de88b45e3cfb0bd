import pytest

pytest.importorskip("torch", reason="needs the extra [center]")
