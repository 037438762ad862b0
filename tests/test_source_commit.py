"""The commit that records name: of this project's tree, and of no other."""

import importlib.util
import shutil
import subprocess

from comixup.lab import _source_commit


def commit_told_in(folder):
    """What the module tells where it lies in a folder."""
    spec = importlib.util.spec_from_file_location("told", folder / "_source_commit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.source_commit()


def tree(root, package):
    """A tree under git with the module in one of its folders; returns its commit."""
    (root / package).mkdir(parents=True)
    shutil.copy(_source_commit.__file__, root / package)
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    found = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def test_the_tree_of_this_project_is_found_through_links_too(tmp_path):
    commit = tree(tmp_path / "clone", "src/comixup/lab")
    (tmp_path / "link").symlink_to("clone")
    for place in ("clone", "link"):
        told = commit_told_in(tmp_path / place / "src" / "comixup" / "lab")
        assert len(told) >= 4
        assert commit.startswith(told)
    module = tmp_path / "clone" / "src" / "comixup" / "lab" / "_source_commit.py"
    module.write_text(module.read_text() + "# changed")
    assert commit_told_in(tmp_path / "link" / "src" / "comixup" / "lab").endswith("-dirty")


def test_a_tree_of_another_project_is_not_taken_for_it(tmp_path):
    tree(tmp_path / "other", "venv/comixup/lab")
    assert commit_told_in(tmp_path / "other" / "venv" / "comixup" / "lab") is None
    (tmp_path / "plain").mkdir()
    shutil.copy(_source_commit.__file__, tmp_path / "plain")
    assert commit_told_in(tmp_path / "plain") is None
