"""A SLURM cluster of the tests' own: munged, slurmctld and slurmd on this machine, with everything in one folder.

The daemons listen on all interfaces, so they are started in a network namespace of their own if that is possible: then
nobody else can reach them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel", "unshare", "nsenter", "ip")
CPUS = 4
#: States in which a job stays.
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}

_CONFIGURATION = """\
ClusterName=reblock
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={controller}
SlurmdPort={daemon}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,defer_batch
MinJobAge=3600
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4096 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why no cluster can be started here; None if one can."""
    if os.geteuid() != 0:
        return "only root can start SLURM's daemons"
    os.environ["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    lost = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(lost)} not found: Debian's slurm-wlm and munge have them" if lost else None


class Slurm:
    """A cluster of one node."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rbslurm-", dir="/tmp"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._inside: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead to it, and none of a cluster around the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        return {**kept, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        """Start it, and wait until its node is idle."""
        host = socket.gethostname().partition(".")[0]
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir()
        os.chmod(self.folder, 0o755)
        key = self.folder / "munge" / "munge.key"
        key.write_bytes(os.urandom(128))
        user = pwd.getpwnam("munge")
        for path in (key, key.parent):
            os.chown(path, user.pw_uid, user.pw_gid)
            os.chmod(path, 0o700 if path == key.parent else 0o400)
        port = 30_000 + os.getpid() % 10_000 * 2
        (self.folder / "slurm.conf").write_text(
            _CONFIGURATION.format(host=host, folder=self.folder, controller=port, daemon=port + 1, cpus=CPUS)
        )
        self._isolate()
        munged = ["munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}"]
        munged += [f"--{name}-file={self.folder}/munge/munged.{name}" for name in ("pid", "log", "seed")]
        self._spawn(munged, "munged.out")
        self._wait((self.folder / "munge.socket").exists, "munged")
        self._spawn(["slurmctld", "-D", "-i"], "slurmctld.out")
        self._spawn(["slurmd", "-D", "-N", host], "slurmd.out")
        self._wait(lambda: "State=IDLE" in self.ask("scontrol", "show", "node"), "the node")

    def _isolate(self) -> None:
        """A network namespace with nothing but the loopback address; none if the system does not allow that."""
        holder = subprocess.Popen(
            ["unshare", "--net", "sleep", "infinity"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._processes.append(holder)
        time.sleep(0.3)
        enter = ["nsenter", f"--target={holder.pid}", "--net"]
        # Without an address that is not a loopback address, names are not resolved.
        words = ("ip", "link", "set", "lo", "up"), ("ip", "address", "add", "10.99.0.1/32", "dev", "lo")
        if holder.poll() is None and all(subprocess.run([*enter, *one], check=False).returncode == 0 for one in words):
            self._inside = enter

    def _spawn(self, words: list[str], log: str) -> None:
        with open(self.folder / log, "ab") as out:
            self._processes.append(
                subprocess.Popen([*self._inside, *words], stdout=out, stderr=out, env=self.environment, cwd=self.folder)
            )

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(subprocess.CalledProcessError):
                if done():
                    return
            time.sleep(0.2)
        logs = [f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.log"))]
        raise AssertionError("\n".join([f"{what} did not start", *logs]))

    def ask(self, *words: str) -> str:
        """The output of a command of SLURM."""
        return subprocess.run(
            [*self._inside, *words], check=True, capture_output=True, text=True, env=self.environment, timeout=60
        ).stdout

    def run(self, words: list[str], *, cwd: Path, seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a program that reaches the cluster."""
        return subprocess.run(
            [*self._inside, *words],
            check=False,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=cwd,
            timeout=seconds,
        )

    def submit(self, script: Path, *options: str, cwd: Path) -> str:
        """The number of a job."""
        return self.ask("sbatch", "--parsable", f"--chdir={cwd}", *options, str(script)).strip().partition(";")[0]

    def requeue(self, job: str, number: int) -> None:
        """Requeue a member that has ended, at once: by default, SLURM waits two minutes."""
        self.ask("scontrol", "requeue", f"{job}_{number}")
        self.ask("scontrol", "update", f"JobId={job}_{number}", "StartTime=now")

    def states(self, job: str) -> dict[str, str]:
        """The state of each member of a job array, by its number."""
        shown = self.ask("squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%K %T")
        return {words[0]: words[1] for words in map(str.split, shown.splitlines())}

    def wait(self, job: str, seconds: float = 120) -> dict[str, str]:
        """The states when all members have ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.states(job)
            if found and set(found.values()) <= ENDED:
                return found
            time.sleep(0.3)
        raise AssertionError(f"job {job} has not ended: {self.states(job)}")

    def stop(self) -> None:
        """End everything, and remove the folder."""
        with suppress(subprocess.SubprocessError, OSError):
            self.ask("scancel", "--user=root")
            time.sleep(0.5)
        for process in reversed(self._processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
