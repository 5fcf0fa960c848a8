"""Prepares an image of FreeBSD for a virtual testbed, once, over its serial console.

The image is never written: the prepared disk is an overlay over it. It must let root in without a
password, as FreeBSD's images BASIC-CI do, and its root file system must be UFS, where loader(8) can
reset nextboot.conf. The guest's host key is read over the console, before the first connection.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from netbisect.workers.config.vm import GUEST_ALIAS, Vm
from netbisect.workers.vm import pktgen, vm
from netbisect.workers.vm.host import KEY, KNOWN_HOSTS
from netbisect.workers.vm.vm import VmError

_NEW = "new.qcow2"
_ASK_AGAIN = 10.0
"""Seconds of silence after which a return is sent, to see a prompt that was missed."""
_LINE_SECONDS = 60.0
_SCRIPT_SECONDS = 300.0
_DOWN_SECONDS = 300.0
_POLL = 0.2
_BLOCK = 4096
_SHOWN = 400
"""Characters of the console in an error message."""
_PROMPT, _MORE, _DONE = "nb# ", "nb> ", "netbisect-status="
_PLACE = "/root/netbisect.sh"
_HOST_KEY = re.compile(r"^netbisect-key=(ssh-\S+ \S+)", re.MULTILINE)
_WRONG = re.compile(r"^netbisect-wrong=([^\r\n]+)", re.MULTILINE)

_RC_CONF = f"""\
ifconfig_vtnet0="inet 10.0.2.15/24"
ifconfig_vtnet1="inet 198.18.0.1/24 -rxcsum -txcsum -tso4 -tso6 -lro"
ifconfig_vtnet2="inet 198.19.0.1/24 -rxcsum -txcsum -tso4 -tso6 -lro"
ifconfig_vtnet1_ipv6="inet6 2001:2::1/64"
ifconfig_vtnet2_ipv6="inet6 2001:2:0:8000::1/64"
gateway_enable="YES"
ipv6_gateway_enable="YES"
static_routes="generator receiver"
route_generator="-net 198.18.0.0/16 198.18.0.2"
route_receiver="-net 198.19.0.0/16 198.19.0.2"
ipv6_static_routes="generator receiver"
ipv6_route_generator="-net 2001:2:: -prefixlen 49 2001:2::2"
ipv6_route_receiver="-net 2001:2:0:8000:: -prefixlen 49 2001:2:0:8000::2"
static_arp_pairs="generator receiver"
static_arp_generator="198.18.0.2 {pktgen.MACS["ingress"]}"
static_arp_receiver="198.19.0.2 {pktgen.MACS["egress"]}"
static_ndp_pairs="generator receiver"
static_ndp_generator="2001:2::2 {pktgen.MACS["ingress"]}"
static_ndp_receiver="2001:2:0:8000::2 {pktgen.MACS["egress"]}"
harvest_mask="351"
sshd_enable="YES"
fsck_y_enable="YES"
background_fsck="NO"
dumpdev="NO"
growfs_enable="NO"
"""
_LOADER_CONF = """\
console="comconsole"
comconsole_speed="115200"
autoboot_delay="0"
beastie_disable="YES"
"""
_SYSCTL_CONF = """\
net.inet.ip.redirect=0
net.inet6.ip6.redirect=0
debug.debugger_on_panic=0
"""


def script(key: str) -> str:
    """The script for the guest, with a public key for root; lines fit a terminal."""
    kind, code, *_ = key.split()
    parts = [code[start : start + 120] for start in range(0, len(code), 120)]
    lines = [
        "set -e",
        "umask 077",
        'wrong() { echo "netbisect-wrong=$1"; exit 1; }',
        "kind=$(mount -p | while read -r dev at type rest; do",
        'if [ "$at" = / ]; then echo "$type"; fi; done)',
        '[ "$kind" = ufs ] || wrong "its root is on $kind; expected an image with UFS"',
        "mkdir -p /root/.ssh",
        f"printf '%s ' {kind} >> /root/.ssh/authorized_keys",
        *(f"printf %s {part} >> /root/.ssh/authorized_keys" for part in parts),
        "echo >> /root/.ssh/authorized_keys",
    ]
    for place, text in (
        ("/etc/rc.conf", _RC_CONF),
        ("/boot/loader.conf", _LOADER_CONF),
        ("/etc/sysctl.conf", _SYSCTL_CONF),
        ("/etc/ssh/sshd_config", "PermitRootLogin prohibit-password\nUseDNS no\n"),
    ):
        lines += [f"cat >> {place} <<'EOT'", *text.splitlines(), "EOT"]
    lines += [
        "rm -f /firstboot",
        "pub=/etc/ssh/ssh_host_ed25519_key.pub",
        "[ -f $pub ] || service sshd keygen",
        'echo "netbisect-key=$(cat $pub)"',
        f"rm -f {_PLACE}",
        "sync",
    ]
    return "\n".join(lines) + "\n"


class GuestConsole:
    """A conversation over the serial line; a context manager.

    Every method raises `VmError` if the expected output does not come.
    """

    def __init__(self, place: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.fspath(place))
        self._heard = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def wait(self, *texts: str, seconds: float, nudge: bool = False) -> tuple[str, str]:
        """Waits for one of these texts; returns it, and all output until then.

        `nudge` presses return after a while without output.
        """
        deadline = time.monotonic() + seconds
        while True:
            places = [(self._heard.find(text), text) for text in texts if text in self._heard]
            if places:
                at, text = min(places)
                before = self._heard[:at]
                self._heard = self._heard[at + len(text) :]
                return text, before
            what = f"printed {' or '.join(map(repr, texts))}"
            block = self._read(deadline, seconds, what)
            if block == b"":
                raise VmError(f"the guest is gone; its last output is {self._end!r}")
            if block is None and nudge:
                self.send("")

    def listen_until(self, over: Callable[[], bool], seconds: float) -> None:
        """Reads the console, so that the guest never blocks on it, until the condition holds."""
        deadline = time.monotonic() + seconds
        while not over():
            if self._read(deadline, seconds, "switched itself off") == b"":
                time.sleep(_POLL)

    def _read(self, deadline: float, seconds: float, what: str) -> bytes | None:
        """The next output; None after a while of silence."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise VmError(f"the guest has not {what} after {seconds:g} s; last came {self._end!r}")
        self._socket.settimeout(min(left, _ASK_AGAIN))
        try:
            block = self._socket.recv(_BLOCK)
        except TimeoutError:
            return None
        self._heard += block.decode(errors="replace").replace("\r", "")
        return block

    @property
    def _end(self) -> str:
        """The end of the output, for messages."""
        return self._heard[-_SHOWN:].strip()

    def send(self, line: str) -> None:
        """Types a line."""
        self._socket.settimeout(_LINE_SECONDS)
        self._socket.sendall(f"{line}\r".encode())

    def log_in(self, seconds: float) -> None:
        """Logs in as root, within `seconds` after the start, and sets the prompts."""
        self.wait("login: ", seconds=seconds, nudge=True)
        self.send("root")
        text, _ = self.wait("Password:", "# ", "login: ", seconds=_LINE_SECONDS)
        if text != "# ":
            raise VmError(
                "the image does not let root in without a password on its console; expected "
                "one that does, such as a BASIC-CI image, or see docs/vm-lab.md"
            )
        self.send("exec /bin/sh")
        self.wait("# ", seconds=_LINE_SECONDS)
        # In two parts, so that the echo of this line is not taken for a prompt.
        self.send('PS1="nb""# " PS2="nb""> "')
        self.wait(_PROMPT, seconds=_LINE_SECONDS)

    def run(self, text: str) -> str:
        """Runs a script; returns its output.

        Raises:
            VmError: it fails.
        """
        self.send(f"cat > {_PLACE} <<'END-OF-SCRIPT'")
        for line in text.splitlines():
            self.wait(_MORE, seconds=_LINE_SECONDS)
            self.send(line)
        self.wait(_MORE, seconds=_LINE_SECONDS)
        self.send("END-OF-SCRIPT")
        self.wait(_PROMPT, seconds=_LINE_SECONDS)
        self.send(f'sh {_PLACE}; echo "netbisect-""status=$?"')
        _, output = self.wait(_DONE, seconds=_SCRIPT_SECONDS)
        _, status = self.wait(_PROMPT, seconds=_LINE_SECONDS)
        if status.strip() != "0":
            wrong = _WRONG.search(output)
            raise VmError(
                wrong[1] if wrong else f"the image cannot be prepared: {output[-_SHOWN:].strip()!r}"
            )
        return output


def prepare(machine: Vm, image: Path, boot_seconds: float, say: Callable[[str], None]) -> None:
    """Creates the disk, the key and the known host of a virtual DUT; it is off afterwards.

    Args:
        machine: Table of the lab file.
        image: Raw or qcow2; must stay at its place.
        boot_seconds: Timeout of the first boot.
        say: Logs progress.

    Raises:
        VmError: it cannot be prepared; existing files are unchanged.
    """
    image = image.expanduser().resolve()
    if not image.is_file():
        raise VmError(f"there is no image {image}")
    vm.disk_format(image)
    machine.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with vm.alone(machine, "preparing"):
        if vm.process_of(machine):
            raise VmError(f"{machine.directory} is switched on; `netbisect-lab vm stop` first")
        try:
            _prepare(machine, image, boot_seconds, say)
        except OSError as error:
            raise VmError(f"{machine.directory}: {error}") from error
        finally:
            with contextlib.suppress(VmError):
                vm.end(machine)
            (machine.directory / _NEW).unlink(missing_ok=True)


def _prepare(machine: Vm, image: Path, boot_seconds: float, say: Callable[[str], None]) -> None:
    disk = machine.directory / _NEW
    vm.make_overlay(image, disk)
    public = _key(machine.directory / KEY)
    say(f"starting {image.name} with {machine.accelerator}")
    # Its own reboot switches it off: not every kernel knows how to do more than that.
    vm.launch(machine, disk, "-no-reboot")
    with GuestConsole(vm.socket_of(machine, vm.SERIAL)) as console:
        console.log_in(boot_seconds)
        say("root is in; setting it up")
        output = console.run(script(public))
        found = _HOST_KEY.search(output)
        if found is None:
            raise VmError("the guest has no ssh-ed25519 host key")
        console.send("shutdown -r now")
        console.listen_until(lambda: not vm.process_of(machine), _DOWN_SECONDS)
    (machine.directory / KNOWN_HOSTS).write_text(f"{GUEST_ALIAS} {found[1]}\n")
    disk.rename(machine.directory / vm.PREPARED)


def _key(place: Path) -> str:
    """The public key of the key pair at `place`, which is created if missing."""
    if not place.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "netbisect", "-f", str(place)]
        vm.run_tool(words, f"{place} cannot be made")
    return place.with_name(f"{place.name}.pub").read_text()
