"""The OpenSSH client against a real OpenSSH server on loopback."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import pytest
from programs import captured, command_lines, netbisect
from sshd_fixtures import Server, key
from waiting import wait_until

from netbisect.workers.config.lab import Ssh
from netbisect.workers.transport import limited_output, ssh
from netbisect.workers.transport.errors import (
    CommandError,
    HostKeyError,
    MachineError,
    UnreachableError,
)
from netbisect.workers.transport.ssh import Connections, Machine

# One process at a time: the sshd of root needs a system directory.
pytestmark = pytest.mark.xdist_group("sshd")


@pytest.fixture
def guarded(server: Server) -> Server:
    """The server with a key that is restricted to commands of traffic hosts."""
    guard = server.folder / "guard"
    guard.write_text(netbisect("guard").output)
    guard.chmod(0o755)
    line = (server.folder / "authorized_keys").read_text()
    (server.folder / "authorized_keys").write_text(f'restrict,command="{guard} traffic" {line}')
    return server


def test_guarded_key_allows_only_netbisect_commands(guarded: Server, dut: Machine) -> None:
    """Logins, other commands, files and forwarding are rejected."""
    assert dut.run(["true"], ["uname", "-v"]) == f"{os.uname().version}\n"
    assert len(dut.ask(["date", "-u", "+%s"], ["kldstat"], ["uname", "-r"])) == 3
    assert dut.ask() == []
    for command in (["cat", "/etc/passwd"], ["sh", "-c", "id"], ["kldload", "-n", "pf"]):
        with pytest.raises(CommandError, match="not allowed for traffic"):
            dut.run(command)
    for line in ("uname -v; id", "uname -v\nid"):
        with (
            pytest.raises(CommandError, match="not allowed for traffic"),
            dut._running_line(line) as read,
        ):
            read()
    client = ["ssh", "-F", str(guarded.folder / "ssh_config")]
    login = captured([*client, "-T", "dut"], input="id\n")
    assert (login.returncode, login.stdout) == (126, "")
    assert "prohibited" in captured([*client, "-W", "127.0.0.1:22", "dut"]).stderr


def test_commands_share_one_connection(
    server: Server, dut: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one authentication; excessive output ends the connection, not the next command."""
    assert dut.run(["echo", "a b", "'c'"], ["printf", "%s", "$HOME"]) == "a b 'c'\n$HOME"
    assert dut.ask(["echo", "one"], ["false"], ["no-such-command"], ["echo", "two"]) == [
        "one\n",
        "",
        "",
        "two\n",
    ]
    assert dut.run(["cat"], stdin=b"\x00 in") == "\x00 in"
    with dut.running(["echo", "long"], server.folder / "output") as process:
        process.wait(300)
    assert (server.folder / "output").read_text() == "long\n"
    (server.folder / "full").symlink_to("/dev/full")
    with (
        pytest.raises(MachineError, match=r"dut: `echo long`: .*/full: No space left on device"),
        dut.running(["echo", "long"], server.folder / "full") as process,
    ):
        process.wait(300)
    assert dut.try_run(["false"]) is None
    assert server.authentications == 1
    monkeypatch.setattr(ssh, "MOST_BYTES", 1 << 20)
    with pytest.raises(CommandError, match="more than 1 MiB of output"):
        dut.run(["yes"])
    assert dut.run(["cat"], stdin=b"x" * 200_000) == "x" * 200_000


def test_output_of_a_login_shell_belongs_to_no_answer(server: Server, dut: Machine) -> None:
    """csh(1) reads .cshrc for every command, also before a forced one."""
    keys = server.folder / "authorized_keys"
    greeting = 'echo Welcome; echo of old >&2; eval \\"$SSH_ORIGINAL_COMMAND\\"'
    keys.write_text(f'command="{greeting}" {keys.read_text()}')
    assert dut.run(["echo", "one"], ["echo", "two"]) == "one\ntwo\n"
    assert dut.ask(["echo", "one"], ["false"], ["echo", "two"]) == ["one\n", "", "two\n"]
    with pytest.raises(CommandError, match="dut: `false` exited with status 1: of old"):
        dut.run(["false"])
    keys.write_text(keys.read_text().replace('eval \\"$SSH_ORIGINAL_COMMAND\\"', "exit 0"))
    dut.forget_connection()
    with pytest.raises(CommandError, match="dut: `true` exited with status 0: of old"):
        dut.run(["true"])


def test_machines_are_queried_in_parallel(server: Server, connections: Connections) -> None:
    """Each command waits for the other one; errors affect only their machine.

    For `behind`, ProxyJump, alias, port and key are only in the user's ssh_config.
    """
    first, second = (server.folder / name for name in ("first", "second"))
    met = 'touch "$0"; until [ -e "$1" ]; do sleep 0.05; done; echo met'
    dut, behind = connections.machine("dut"), connections.machine("behind")
    with (
        dut.running_each(["sh", "-c", met, str(first), str(second)]) as one,
        behind.running_each(["sh", "-c", met, str(second), str(first)], ["false"]) as other,
    ):
        assert one() == ["met\n"]
        assert other() == ["met\n", ""]
    assert server.authentications == 3  # `behind` jumps through a connection of its own
    with pytest.raises(ZeroDivisionError), dut.running_each(["sleep", "60"]):
        raise ZeroDivisionError
    with (
        pytest.raises(UnreachableError, match="closed: "),
        dut.running_each(["sleep", "60"]),
        connections.machine("closed").running_each(["true"]),
    ):
        pass
    assert dut.run(["echo", "in"]) == "in\n"


def test_silent_server_is_unreachable(server: Server) -> None:
    """A hung kernel may accept connections without sending anything."""
    settings = Ssh(config=server.folder / "ssh_config", connect_timeout=1)
    with (
        Connections(settings) as connections,
        pytest.raises(UnreachableError, match=r"mute: .*[Tt]imed out"),
    ):
        connections.machine("mute").run(["true"])


def test_changed_or_unknown_host_key_is_rejected(server: Server, connections: Connections) -> None:
    server.kill()
    key(server.folder / "host_key")
    server.start()
    with pytest.raises(HostKeyError, match="dut: the host key is not the known one"):
        connections.machine("dut").run(["true"])
    (server.folder / "known_hosts").write_text("")
    with pytest.raises(HostKeyError, match="dut: the host key is not in known_hosts"):
        connections.machine("dut").ask(["true"])
    assert (server.folder / "known_hosts").read_text() == ""
    assert server.authentications == 0


def test_connection_returns_after_power_loss(server: Server, dut: Machine) -> None:
    """A timeout also closes the connection."""
    assert dut.run(["true"]) == ""
    with pytest.raises(CommandError, match=r"did not end in time: limit 0.5 s"):
        dut.run(["sleep", "60"], timeout=0.5)
    assert dut.run(["echo", "again"]) == "again\n"
    assert server.authentications == 2
    server.kill()
    with pytest.raises(UnreachableError):
        dut.run(["true"])
    server.start()
    assert dut.run(["echo", "back"]) == "back\n"


def test_log_of_a_running_command_is_limited(
    server: Server, dut: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the beginning and the end of the output; other commands run meanwhile."""
    monkeypatch.setattr(limited_output, "MOST_BYTES", 100_000)
    log = server.folder / "output"
    with dut.running(["yes"], log) as process:
        while not log.exists() or log.stat().st_size < 50_000:
            time.sleep(0.02)
        assert dut.run(["echo", "still there"]) == "still there\n"
        assert process.poll() is None
    output = log.read_bytes()
    head = b"y\n" * 25_000 + b"\n[netbisect: "
    assert output.startswith(head)
    assert re.fullmatch(rb"\d+ more bytes left out\]\n[y\n]{50000}", output[len(head) :])
    assert dut.run(["echo", "still there"]) == "still there\n"


def test_killed_or_hung_master_is_replaced(server: Server, dut: Machine) -> None:
    """A hanging connection is killed when a command times out; the next command reconnects."""
    dut.open()
    for text in ("before the first command", "again"):
        os.kill(dut._master.pid, signal.SIGKILL)
        dut._master.wait()
        assert dut.run(["echo", text]) == f"{text}\n"
    assert server.authentications == 2
    os.kill(dut._master.pid, signal.SIGSTOP)
    with pytest.raises(CommandError, match="did not end in time"):
        dut.run(["true"], timeout=0.5)
    assert dut.run(["echo", "again"]) == "again\n"


def hold_connections(folder: Path) -> None:
    with Connections(Ssh(config=folder / "ssh_config")) as connections, ExitStack() as many:
        machine = connections.machine("dut")
        for number in range(5):
            many.enter_context(machine.running(["sleep", "60"], folder / f"output{number}"))
        (folder / "sockets").symlink_to(machine._socket.parent)
        time.sleep(60)


def test_ssh_ends_with_a_killed_process(server: Server) -> None:
    """All ssh clients end, and the folder of their sockets is removed."""
    process = get_context("fork").Process(target=hold_connections, args=(server.folder,))
    process.start()
    sockets = server.folder / "sockets"
    wait_until(lambda: sockets.exists() and server.authentications == 2)
    process.kill()
    process.join()
    wait_until(lambda: not sockets.exists())
    wait_until(lambda: str(server.folder / "ssh_config") not in "".join(command_lines()))
