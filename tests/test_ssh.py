"""The OpenSSH client against a real OpenSSH server on loopback."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from netbisect.steps import cli
from netbisect.workers import bounded, mux
from netbisect.workers.faults import CommandError, HostKeyError, UnreachableError
from netbisect.workers.lab import Ssh
from netbisect.workers.ssh import Connections, Machine

# One process at a time: root's sshd wants a directory of the system's.
pytestmark = pytest.mark.xdist_group("sshd")

_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
_RUN = Path("/run/sshd")
_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
LogLevel VERBOSE
MaxSessions 4
"""
_CLIENT = """\
Host dut
    HostName 127.0.0.1
    Port {port}
Host behind
    HostName 127.0.0.1
    Port {port}
    ProxyJump dut
Host stranger
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/other
Host closed
    HostName 127.0.0.1
    Port {closed}
Host mute
    HostName 127.0.0.1
    Port {mute}
Host *
    User {user}
    HostKeyAlias the-dut
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    IdentitiesOnly yes
Host * !stranger
    IdentityFile {folder}/id
"""


def key(path: Path) -> str:
    """A new key pair; its public line."""
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path.with_name(f"{path.name}.pub").read_text()


@dataclass
class Server:
    """An sshd of the test's own, and the client's files that know it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def authentications(self) -> int:
        return self.log.count("Accepted publickey for")

    def start(self) -> None:
        assert _SSHD is not None
        command = [_SSHD, "-D", "-f", self.folder / "sshd_config", "-E", self.folder / "log"]
        self.process = subprocess.Popen(command)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), 1) as s,
        ):
            return s.recv(4) == b"SSH-"
        return False

    def sessions(self) -> list[int]:
        """The processes that serve those who are in."""
        assert self.process is not None
        said = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        ).stdout
        parents = {int(pid): int(parent) for pid, parent in map(str.split, said.splitlines())}
        family, new = set(), {self.process.pid}
        while new:
            family |= new
            new = {pid for pid, parent in parents.items() if parent in new}
        return sorted(family - {self.process.pid}, reverse=True)

    def die(self) -> None:
        """As a machine that loses its power: server and sessions at once."""
        assert self.process is not None
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


@pytest.fixture
def runtime_directory() -> Iterator[None]:
    """What root's sshd asks for, as the system's start script makes it."""
    if os.geteuid() or _RUN.exists():
        yield
        return
    try:
        _RUN.mkdir(mode=0o755)
    except OSError as error:
        pytest.skip(f"root's sshd needs {_RUN}: {error.strerror}")
    yield
    _RUN.rmdir()


@pytest.fixture
def server(tmp_path: Path, runtime_directory: None) -> Iterator[Server]:
    if _SSHD is None:
        pytest.skip("there is no sshd on this host")
    sockets = [socket.socket() for _ in range(3)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    mute, closed, own = sockets
    mute.listen()  # the kernel takes connections, and nobody ever says a word
    port = own.getsockname()[1]
    names = {
        "folder": tmp_path,
        "port": port,
        "mute": mute.getsockname()[1],
        "closed": closed.getsockname()[1],
        "user": getpass.getuser(),
    }
    (tmp_path / "sshd_config").write_text(_SERVER.format_map(names))
    (tmp_path / "ssh_config").write_text(_CLIENT.format_map(names))
    (tmp_path / "authorized_keys").write_text(key(tmp_path / "id"))
    (tmp_path / "known_hosts").write_text(f"the-dut {key(tmp_path / 'host_key')}")
    key(tmp_path / "other")
    (tmp_path / "log").touch()
    own.close()
    one_server = Server(tmp_path, port)
    one_server.start()
    yield one_server
    one_server.die()
    mute.close()
    closed.close()


@pytest.fixture
def connections(server: Server) -> Iterator[Connections]:
    config = server.folder / "ssh_config"
    with Connections(Ssh(config=config, connect_timeout=2, command_timeout=20)) as found:
        yield found


@pytest.fixture
def dut(connections: Connections) -> Machine:
    return connections.machine("dut")


@pytest.fixture
def guarded(server: Server) -> Server:
    """The same server, where the key may do what a host of traffic does, and nothing else."""
    guard = server.folder / "guard"
    guard.write_text(CliRunner().invoke(cli.main, ["guard"]).output)
    guard.chmod(0o755)
    line = (server.folder / "authorized_keys").read_text()
    (server.folder / "authorized_keys").write_text(f'restrict,command="{guard} traffic" {line}')
    return server


def test_a_guarded_key_does_what_netbisect_does_and_nothing_else(
    guarded: Server, dut: Machine
) -> None:
    """No login, no command of another's, no file, no forwarding; what is asked is answered."""
    assert dut.run(["true"], ["uname", "-v"]) == f"{os.uname().version}\n"
    assert len(dut.ask(["date", "-u", "+%s"], ["kldstat"], ["uname", "-r"])) == 3
    for command in (
        ["cat", "/etc/passwd"],
        ["sh", "-c", "id"],
        ["kldload", "-n", "pf"],
    ):
        with pytest.raises(CommandError, match="not allowed for traffic"):
            dut.run(command)
    for line in ("uname -v; id", "uname -v\nid"):
        with pytest.raises(CommandError, match="not allowed for traffic"):
            dut._run_line(line)
    ssh = ["ssh", "-F", str(guarded.folder / "ssh_config")]
    login = subprocess.run([*ssh, "-T", "dut"], input=b"id\n", capture_output=True, check=False)
    assert (login.returncode, login.stdout) == (126, b"")
    through = subprocess.run([*ssh, "-W", "127.0.0.1:22", "dut"], capture_output=True, check=False)
    assert b"prohibited" in through.stderr


def test_a_machine_that_floods_is_cut_off(dut: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sentence, before its words take all memory; the next command is heard again."""
    monkeypatch.setattr(mux, "MOST_BYTES", 1 << 20)
    with pytest.raises(CommandError, match="it said more than 1 MiB"):
        dut.run(["yes"])
    assert dut.run(["cat"], stdin=b"x" * 200_000) == "x" * 200_000


def test_all_that_is_said_to_a_machine_takes_one_connection(server: Server, dut: Machine) -> None:
    """run, ask, stdin and a long command share it; one authentication, whatever the number."""
    assert dut.run(["echo", "a b", "'c'"], ["printf", "%s", "$HOME"]) == "a b 'c'\n$HOME"
    assert dut.ask(["echo", "one"], ["false"], ["no-such-command"], ["echo", "two"]) == [
        "one\n",
        "",
        "",
        "two\n",
    ]
    assert dut.run(["cat"], stdin=b"\x00 in") == "\x00 in"
    with dut.running(["echo", "long"], server.folder / "said") as process:
        process.wait(20)
    assert (server.folder / "said").read_text() == "long\n"
    assert dut.try_run(["false"]) is None
    assert server.authentications == 1


def test_a_connection_can_be_begun_while_something_else_is_done(
    server: Server, connections: Connections
) -> None:
    """What follows waits for it, and whoever cannot be reached is told as otherwise."""
    dut, closed, never = (connections.machine(name) for name in ("dut", "closed", "behind"))
    for machine in (dut, dut, closed, never):
        machine.open()
    assert dut.run(["echo", "in"]) == "in\n"
    with pytest.raises(UnreachableError, match=r"closed: .*Connection refused"):
        closed.run(["true"])
    assert dut._opening is None
    dut.open()
    assert dut._opening is None


def test_machines_are_asked_at_the_same_time(server: Server, connections: Connections) -> None:
    """Each waits until the other has begun; what one of them cannot answer is its own alone."""
    here, there = (server.folder / name for name in ("here", "there"))
    met = 'touch "$0"; until [ -e "$1" ]; do sleep 0.05; done; echo met'
    dut, behind = connections.machine("dut"), connections.machine("behind")
    with (
        dut.asking(["sh", "-c", met, str(here), str(there)]) as one,
        behind.asking(["sh", "-c", met, str(there), str(here)], ["false"]) as other,
    ):
        assert one() == ["met\n"]
        assert other() == ["met\n", ""]
    with pytest.raises(ZeroDivisionError), dut.asking(["sleep", "60"]):
        raise ZeroDivisionError
    with (
        pytest.raises(UnreachableError, match="closed: "),
        dut.asking(["sleep", "60"]),
        connections.machine("closed").asking(["true"]),
    ):
        pass
    assert dut.run(["echo", "in"]) == "in\n"


def test_a_file_of_many_megabytes_arrives_whole(server: Server, dut: Machine) -> None:
    data = os.urandom(1 << 20) * 24
    (server.folder / "big").write_bytes(data)
    with (server.folder / "big").open("rb") as stream:
        said = dut.run(["dd", f"of={server.folder / 'copy'}", "bs=65536"], stdin=stream)
    assert said == ""
    assert (server.folder / "copy").read_bytes() == data


def test_a_command_that_fails_tells_status_and_words(dut: Machine) -> None:
    with pytest.raises(CommandError) as caught:
        dut.run(["sh", "-c", "echo out; echo why >&2; exit 3"], ["echo", "never"])
    assert caught.value.status == 3
    assert str(caught.value).endswith("exited with status 3: why")


def test_a_command_that_itself_ends_with_ssh_s_own_status_is_told_as_no_answer(
    dut: Machine,
) -> None:
    """255 is what ssh ends with when it fails, so nobody can tell the two apart."""
    with pytest.raises(UnreachableError):
        dut.run(["sh", "-c", "exit 255"])
    assert dut.run(["echo", "still there"]) == "still there\n"


def test_a_command_that_hangs_is_ended_and_the_next_connects_anew(
    server: Server, dut: Machine
) -> None:
    assert dut.run(["true"]) == ""
    with pytest.raises(CommandError, match=r"did not end in time: limit 0.5 s"):
        dut.run(["sleep", "60"], timeout=0.5)
    assert dut.run(["echo", "again"]) == "again\n"
    assert server.authentications == 2


def test_a_flood_is_read_to_its_end(dut: Machine) -> None:
    """Standard output and error at once, more than any pipe holds."""
    line = "i=0; while [ $i -lt 20000 ]; do echo $i-0123456789012345678901234567890123456789; "
    said = dut.run(["sh", "-c", f"{line}echo e$i >&2; i=$((i+1)); done"])
    assert said.count("\n") == 20_000
    assert said.endswith("19999-0123456789012345678901234567890123456789\n")


def test_bytes_that_are_no_text_are_replaced(dut: Machine) -> None:
    assert (
        dut.run(["printf", r"a\377\376b\n"])
        == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b\n"
    )


def test_a_port_that_nobody_listens_on_is_unreachable(connections: Connections) -> None:
    with pytest.raises(UnreachableError, match=r"closed: .*Connection refused"):
        connections.machine("closed").run(["true"])


def test_a_machine_that_takes_the_connection_and_says_nothing_is_unreachable(
    connections: Connections,
) -> None:
    """As a kernel that hangs: it answers on the wire, and nothing runs behind."""
    started = time.monotonic()
    with pytest.raises(UnreachableError, match=r"mute: .*[Tt]imed out"):
        connections.machine("mute").run(["true"])
    assert time.monotonic() - started < 15


def test_a_key_that_is_not_let_in_is_told_without_asking_for_a_password(
    connections: Connections,
) -> None:
    with pytest.raises(UnreachableError, match=r"stranger: .*Permission denied"):
        connections.machine("stranger").run(["true"])


def test_another_host_key_is_no_machine_of_ours(server: Server, connections: Connections) -> None:
    server.die()
    key(server.folder / "host_key")
    server.start()
    with pytest.raises(HostKeyError, match="dut: the host key is not the known one"):
        connections.machine("dut").run(["true"])


def test_a_host_key_that_nobody_knows_is_not_learned(
    server: Server, connections: Connections
) -> None:
    (server.folder / "known_hosts").write_text("")
    with pytest.raises(HostKeyError):
        connections.machine("dut").ask(["true"])
    assert (server.folder / "known_hosts").read_text() == ""
    assert server.authentications == 0


def test_a_machine_that_loses_its_power_is_unreachable_and_then_there_again(
    server: Server, dut: Machine
) -> None:
    assert dut.run(["true"]) == ""
    server.die()
    with pytest.raises(UnreachableError):
        dut.run(["true"])
    server.start()
    assert dut.run(["echo", "back"]) == "back\n"


def test_a_machine_that_dies_in_the_middle_of_a_command_is_unreachable(
    server: Server, dut: Machine
) -> None:
    assert dut.run(["true"]) == ""
    with dut.running(["sleep", "60"], server.folder / "said") as process:
        server.die()
        assert process.wait(20) == 255
    with pytest.raises(UnreachableError):
        dut.ask(["true"])


def test_a_long_command_is_ended_with_its_block(server: Server, dut: Machine) -> None:
    with dut.running(["sleep", "61.25"], server.folder / "said") as process:
        assert process.poll() is None
    assert process.poll() is not None


def test_a_long_command_that_floods_fills_no_disk(
    server: Server, dut: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log has the beginning and says so; it waits for its end, and others are heard."""
    monkeypatch.setattr(bounded, "MOST_BYTES", 100_000)
    log, more = server.folder / "said", b"\n[netbisect: it said more; that is left out]\n"
    with dut.running(["yes"], log) as process:
        while not log.exists() or not log.read_bytes().endswith(more):
            time.sleep(0.02)
        assert dut.run(["echo", "still there"]) == "still there\n"
        assert process.poll() is None
    assert log.read_bytes() == b"y\n" * 50_000 + more
    assert dut.run(["echo", "still there"]) == "still there\n"


def test_all_that_a_long_command_says_is_in_its_log(server: Server, dut: Machine) -> None:
    """When the block ends; from either stream, and nothing of an earlier one."""
    log = server.folder / "said"
    log.write_text("earlier")
    with dut.running(["sh", "-c", "seq 20000; echo end >&2"], log) as process:
        assert process.wait(20.0) == 0
    assert sorted(log.read_text().split()) == sorted([*map(str, range(1, 20_001)), "end"])


def test_a_full_disk_ends_a_log_and_nothing_else() -> None:
    """Whoever writes meets a broken pipe only when all is over."""
    reader, writer = os.pipe()
    os.close(reader)
    with bounded.bounded(Path("/dev/full")) as stream:
        os.dup2(stream, writer)
        os.write(stream, b"x")
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"x")
    os.close(writer)


def holder(machine: Machine) -> int:
    """The process that holds the shared connection."""
    said = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    (found,) = [
        int(line.split()[0])
        for line in said.splitlines()
        if f"ControlPath={machine._socket}" in line
    ]
    return found


def test_without_the_process_that_holds_the_connection_a_new_one_is_made(
    server: Server, dut: Machine
) -> None:
    assert dut.run(["true"]) == ""
    os.kill(holder(dut), signal.SIGKILL)
    assert dut.run(["echo", "anew"]) == "anew\n"
    assert server.authentications == 2


def test_more_commands_at_a_time_than_a_connection_takes_have_some_of_their_own(
    server: Server, dut: Machine
) -> None:
    """MaxSessions of sshd(8) may be as low as 1."""
    with contextlib.ExitStack() as many:
        for number in range(5):
            many.enter_context(dut.running(["sleep", "60"], server.folder / f"said{number}"))
        wait_until(lambda: server.authentications == 2)
        assert dut.run(["echo", "in"]) == "in\n"
    assert server.authentications == 3


@pytest.mark.slow
def test_a_holder_that_hangs_is_left_alone(server: Server, dut: Machine) -> None:
    """What was asked ends by its own limit; what is asked next does not ask there."""
    assert dut.run(["true"]) == ""
    process = holder(dut)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(CommandError, match="did not end in time"):
            dut.run(["true"], timeout=0.5)
        assert dut.run(["echo", "anew"]) == "anew\n"
    finally:
        os.kill(process, signal.SIGKILL)


def test_no_holder_outlives_its_block(server: Server) -> None:
    config = server.folder / "ssh_config"
    with Connections(Ssh(config=config)) as connections:
        machine = connections.machine("dut")
        assert machine.run(["echo", "in"]) == "in\n"
        socket_path = machine._socket
        assert socket_path.exists()
    assert not socket_path.parent.exists()
    wait_until(lambda: not server.sessions())


def test_a_long_path_of_temporary_files_is_in_nobodys_way(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path has an end; without this no machine could be reached."""
    long = server.folder / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with Connections(Ssh(config=server.folder / "ssh_config")) as connections:
        assert connections.machine("dut").run(["echo", "in"]) == "in\n"
    assert not [*long.iterdir()]


def test_a_machine_behind_another_is_reached_by_the_users_own_configuration(
    server: Server, connections: Connections
) -> None:
    """ProxyJump, an alias, a port, a key: all of it is in ssh_config alone."""
    assert connections.machine("behind").run(["echo", "through"]) == "through\n"
    assert server.authentications == 2
