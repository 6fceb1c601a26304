"""Which page an address leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from ..tables.pages.assets import Assets
from .compare_pages import Verdicts, compare_page
from .sample_pages import sample_page, samples_page, scatter_page
from .site import Site, index_page, run_page, suite_page, suites_page
from .state import NoSuchPageError

ASSETS = Assets(Path(__file__).parent, "view")
"""Style sheets and scripts of all pages."""


@dataclass(frozen=True)
class Pages:
    """The pages of a site by their addresses.

    Attributes:
        site: What they are made with.
    """

    site: Site
    _verdicts: Verdicts = field(default_factory=Verdicts)

    def page(self, path: str, query: Mapping[str, str]) -> str:
        """Return a page.

        Args:
            path: Of its address.
            query: The values behind it.

        Raises:
            BenchError: There is none, or it cannot be shown.
        """
        site = self.site
        match [unquote(part) for part in path.strip("/").split("/")]:
            case [""]:
                return index_page(site, query)
            case ["runs", key]:
                return run_page(site, key)
            case ["runs", key, "samples"]:
                return samples_page(site, key, query)
            case ["runs", key, "samples", sample]:
                return sample_page(site, key, sample, query)
            case ["runs", key, "scatter"]:
                return scatter_page(site, key, query)
            case ["compare"]:
                return compare_page(site, self._verdicts, query)
            case ["suites"]:
                return suites_page(site)
            case ["suites", name]:
                return suite_page(site, name)
            case _:
                raise NoSuchPageError(f"there is no page {path}", "The first page lists all runs.")
