"""The code blocks of the page about Spark run where Spark is installed."""

import pytest

from ..test_pages import run_page

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_the_blocks_of_the_page_run(spark, without_compiler):
    """The page gets the session of the other tests, whose workers do not compile."""
    run_page("docs/scale.md")
