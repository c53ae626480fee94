# SPDX-License-Identifier: Apache-2.0
"""Where reports go."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from startup_plan.support.atomic_files import ReportPathError, check_writable, write_report


def test_report_replaces_in_one_step(tmp_path: Path) -> None:
    """A report is published whole, with an ordinary mode, and leaves nothing beside it."""
    path = tmp_path / "report.json"
    path.write_text("old")
    check_writable(path)
    between = path.read_text()
    write_report(path, "new")

    assert (between, path.read_text(), list(tmp_path.iterdir())) == ("old", "new", [path])
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


def test_failed_report_leaves_the_old_one(tmp_path: Path) -> None:
    """A text that cannot be written takes nothing away, and leaves nothing beside it."""
    path = tmp_path / "report.json"
    path.write_text("old")
    with pytest.raises(ReportPathError, match="surrogates not allowed"):
        write_report(path, "\ud800")

    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_report_follows_a_link(tmp_path: Path) -> None:
    """A link to a report stays a link, and the file behind it is replaced."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_report(link, "new")

    assert (link.is_symlink(), target.read_text()) == (True, "new")


def test_device_is_written_to_and_not_replaced() -> None:
    """A report may go to a device, which must not become a file."""
    null = Path("/dev/null")
    check_writable(null)
    write_report(null, "text")

    assert null.is_char_device()


@pytest.mark.parametrize("name", ["missing/report", ".", "file/report", "x" * 300, "nul\0"])
def test_hopeless_path_is_refused(tmp_path: Path, name: str) -> None:
    """No folder, a folder, a file for a folder, a name too long: a sentence with the remedy."""
    (tmp_path / "file").touch()

    with pytest.raises(ReportPathError, match=r"cannot write the report .*: name a file in a"):
        check_writable(tmp_path / name)
    with pytest.raises(ReportPathError, match=r"cannot write the report .*: name a file in a"):
        write_report(tmp_path / name, "text")
