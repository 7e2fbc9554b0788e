"""Tests run from the inside out: what is quick and close to the code first."""

import pytest

ORDER = ("unit", "conformance", "web", "vllm", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by the first marker of ORDER that a test has; within one, as written."""

    def place(item: pytest.Item) -> int:
        markers = {marker.name for marker in item.iter_markers()}
        return next((index for index, name in enumerate(ORDER) if name in markers), len(ORDER))

    items.sort(key=place)
