"""Copies of folders, as a crash would leave them."""

import shutil


def copy_as_after_a_crash(folder, copy):
    """Copy a folder whose writer may still be at work: no file came or went meanwhile."""
    while True:
        before = sorted(folder.rglob("*"))
        try:
            shutil.copytree(folder, copy)
        except shutil.Error:
            before = None
        if before == sorted(folder.rglob("*")):
            return
        shutil.rmtree(copy)
