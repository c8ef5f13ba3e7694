"""Machine code on disk: one object file per function and types of its arguments.

The folder carries a hash of the package's source, so that an edit leaves no old code behind. Where
that source lies, and since when, does not matter: all environments of a user share what one of
them has compiled. A file is a checked header and object code; nothing in it is unpickled. Object
code is executed all the same, so that a folder that somebody else can write is never used.
"""

import ctypes
import hashlib
import os
import platform
import stat
import tempfile
import threading
import uuid
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm

__all__ = ["Code", "entry_name", "find", "folder", "host", "keep", "load", "target"]

# Packages that define no compiled function. An edit of their files leaves machine code as it is.
NEVER_COMPILED = frozenset(["cli", "datasets", "files", "serve", "spark", "streams", "tables"])
_MAGIC = b"kernelstream machine code 1\n"


class Code(NamedTuple):
    """Object code of one function."""

    name: str  # of the function, by which machine code finds it
    needs: tuple[str, ...]  # functions of other libraries that it calls
    content: bytes


def entry_name(*descriptions: str) -> str:
    """Return the name of the code that was made by these descriptions."""
    return "entry_" + hashlib.sha256("\n".join(descriptions).encode()).hexdigest()[:32]


# --- where files are ------------------------------------------------------------------------------


@cache
def host() -> tuple[str, str]:
    """Return the processor and its instructions, for which code is made."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def _fingerprint() -> str:
    """Return a hash of all that machine code depends on, except the types of its arguments."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    digest.update(repr((platform.system(), llvmlite.__version__, host())).encode())
    for path in sorted(package.rglob("*.py")):
        inner = path.relative_to(package)
        if inner.parts[0] not in NEVER_COMPILED:
            digest.update(inner.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _is_private(place: Path) -> bool:
    """Return whether only this user, or root, can exchange a folder or anything above it."""
    if not hasattr(os, "getuid"):  # Windows keeps the folders of a user to that user
        return True
    for each in (place, *place.parents):
        status = each.stat()
        others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_sticky = each != place and status.st_mode & stat.S_ISVTX  # nobody else's can be moved
        if status.st_uid not in (os.getuid(), 0) or (others_write and not is_sticky):
            return False
    return place.stat().st_uid == os.getuid()


@cache
def folder() -> Path | None:
    """Return a writable folder that nobody else can write; None: compile in every process."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME")
    candidates = [
        Path(chosen) if chosen else None,
        Path(home) if home else Path("~/.cache").expanduser(),
        Path(tempfile.gettempdir()) / f"kernelstream-{os.environ.get('USER', 'user')}",
    ]
    for candidate in candidates:
        if candidate is None:
            continue
        found = candidate.absolute() / "kernelstream" / _fingerprint()
        try:
            for place in (*reversed(found.parents), found):
                place.mkdir(mode=0o700, exist_ok=True)
            if os.access(found, os.W_OK) and _is_private(found.resolve()):
                return found
        except OSError:
            continue
    return None


# --- files ----------------------------------------------------------------------------------------


def find(name: str) -> Code | None:
    """Return the code of a name, if it is kept and complete."""
    place = folder()
    if place is None:
        return None
    try:
        content = (place / f"{name}.o").read_bytes()
    except OSError:
        return None
    head, _, rest = content[len(_MAGIC) :].partition(b"\n")
    if not content.startswith(_MAGIC) or head != hashlib.sha256(rest).hexdigest().encode():
        return None
    about, _, code = rest.partition(b"\n")
    known, *needs = about.decode().split(" ")
    return Code(known, tuple(needs), code) if known == name else None


def keep(code: Code) -> None:
    """Keep code on disk, if there is a folder for it."""
    place = folder()
    if place is None:
        return
    rest = " ".join([code.name, *code.needs]).encode() + b"\n" + code.content
    head = hashlib.sha256(rest).hexdigest().encode()
    path = place / f"{code.name}.o"
    written = path.with_suffix(f".{uuid.uuid4().hex}")  # which no other process writes
    try:
        written.write_bytes(_MAGIC + head + b"\n" + rest)
        written.replace(path)
    except OSError:  # the disk is full, or the folder is gone: the code is made again next time
        written.unlink(missing_ok=True)


# --- code in memory -------------------------------------------------------------------------------


_engines: list[Any] = []  # which own the memory of all code that was loaded
_lock = threading.Lock()


@cache
def target() -> llvm.Target:
    """Return what LLVM knows of this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


@cache
def _libraries() -> tuple[Any, ...]:
    """Return the libraries whose functions any process has: those of C."""
    return (ctypes.CDLL("ucrtbase" if os.name == "nt" else None),)


def _is_there(name: str) -> bool:
    """Return whether machine code may call a function of a name in this process."""
    return bool(llvm.address_of_symbol(name)) or any(hasattr(each, name) for each in _libraries())


def load(code: Code) -> int | None:
    """Return the address of a function; None, if a function that it calls is not there."""
    with _lock:
        made = target()
        if not all(map(_is_there, code.needs)):
            return None
        machine = made.create_target_machine(jit=True, codemodel="jitdefault")
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
        engine.finalize_object()
        _engines.append(engine)
        return engine.get_function_address(code.name)
