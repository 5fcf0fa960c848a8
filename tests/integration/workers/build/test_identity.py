"""Identities of kernels."""

from __future__ import annotations

import struct
from pathlib import Path

from lab_fixtures import RunningLab

from netbisect.workers.build.identity import identity_of, identity_of_file, version_of


def elf(*sections: tuple[str, int, bytes]) -> bytes:
    """A small ELF file: name, flags and data of its sections."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    body, headers = b"", [b"\0" * 64]
    for name, flags, data in (*sections, (".shstrtab", 0, names)):
        kind = 3 if name == ".shstrtab" else 8 if name == ".bss" else 1
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(
            struct.pack("<IIQQQQIIQQ", at, kind, flags, 0, 64 + len(body), len(data), 0, 0, 1, 0)
        )
        if kind != 8:
            body += data
    count = len(headers)
    magic, start = b"\x7fELF\x02\x01\x01\x09", 64 + len(body)
    rest = 0, 64, 0, 0, 64, count, count - 1
    head = struct.pack("<16sHHIQQQIHHHHHH", magic, 2, 62, 1, 0, 0, start, *rest)
    return head + body + b"".join(headers)


ALLOC = 2
ADDEND = 4


def module(callee: bytes) -> bytes:
    """A module of amd64 with a call that is relocated at load; its symbol may be missing."""
    strings = b"\0" + callee + b"\0here\0"
    symbols = b"\0" * 24
    symbols += struct.pack("<IBBHQQ", strings.index(b"here"), 2, 0, 1, 0, 5)
    symbols += struct.pack("<IBBHQQ", 1, 16, 0, 0, 0, 0)
    relocation = struct.pack("<QQq", 1, (9 << 32) | ADDEND, -4)
    data = elf(
        (".text", ALLOC, b"\xe8\0\0\0\0"),
        (".rela.text", 0, relocation),
        (".symtab", 0, symbols),
        (".strtab", 0, strings),
    )
    # Sets kind, link, info and entry size of sections, which elf() does not support.
    image = bytearray(data)
    (headers,) = struct.unpack_from("<Q", image, 40)
    for number, kind, link, info, size in ((2, 4, 3, 1, 24), (3, 2, 4, 1, 24), (4, 3, 0, 0, 0)):
        at = headers + 64 * number
        struct.pack_into("<I", image, at + 4, kind)
        struct.pack_into("<II", image, at + 40, link, info)
        struct.pack_into("<Q", image, at + 56, size)
    return bytes(image)


def kernel(code: bytes, version: bytes, *, note: bytes = b"1", debug: bytes = b"") -> bytes:
    return elf(
        (".text", ALLOC, code),
        (".note.gnu.build-id", ALLOC, note),
        (".data", ALLOC, b"a\0FreeBSD 15.0-CURRENT " + version + b" GENERIC\0b"),
        (".debug_info", 0, debug),
    )


FIRST = kernel(b"\x90\x90", b"main-n9-0123456789ab")


def test_only_loaded_sections_change_the_identity() -> None:
    """Revision, build-id and debugging symbols do not change it."""
    for other in (
        kernel(b"\x90\x90", b"main-n9-ba9876543210"),
        kernel(b"\x90\x90", b"main-n10-ba9876543210-dirty"),
        kernel(b"\x90\x90", b"main-n9-0123456789ab", note=b"2"),
        kernel(b"\x90\x90", b"main-n9-0123456789ab", debug=b"DWARF"),
    ):
        assert identity_of_file(other) == identity_of_file(FIRST)
    for other in (
        kernel(b"\x90\x91", b"main-n9-0123456789ab"),
        kernel(b"\x90\x90\x90", b"main-n9-0123456789ab"),
        FIRST.replace(b"\0b\0", b"\0c\0"),
    ):
        assert other != FIRST
        assert identity_of_file(other) != identity_of_file(FIRST)


def test_an_invalid_relocation_hashes_the_whole_file() -> None:
    """Files that are not ELF are also hashed as a whole."""
    assert identity_of_file(module(b"m_free")) != identity_of_file(module(b"m_frei"))


def test_identity_depends_on_modules_and_not_on_hints_and_symbols(tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(FIRST)
    (tmp_path / "pf.ko").write_bytes(FIRST)
    before = identity_of(tmp_path)
    (tmp_path / "linker.hints").write_bytes(b"x")
    (tmp_path / "kernel.debug").write_bytes(b"x")
    assert identity_of(tmp_path) == before
    (tmp_path / "pf.ko").rename(tmp_path / "ipfw.ko")
    assert identity_of(tmp_path) != before


def test_the_version_is_that_of_uname(tmp_path: Path) -> None:
    path = tmp_path / "kernel"
    path.write_bytes(FIRST)
    assert version_of(path) == "n9-0123456789ab"
    path.write_bytes(b"no kernel")
    assert version_of(path) == ""


def test_a_commit_changes_the_identity_if_it_changes_code(running_lab: RunningLab) -> None:
    """One commit adds a comment, the other changes a function outside of the forwarding path."""
    for number, same in ((6, True), (10, False)):
        before, after = (running_lab.kernel(one)[0] for one in (number - 1, number))
        assert before.version != after.version
        assert before.key != after.key
        assert (before.identity == after.identity) is same
