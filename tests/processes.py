"""Run functions and programs in processes of their own, each with a time limit.

At its limit a job is killed with all its descendants, and the error shows its output, with the
Python stacks. No process outlives the call that waits for it.
"""

import faulthandler
import multiprocessing as mp
import os
import signal
import socket
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from uuid import uuid4

import torch

# A server imports these once; a process forked from it starts within milliseconds and shares
# nothing else with this one.
PRELOAD = ['cvrl_mm', 'mmaction.models', 'torch._dynamo']
TIMEOUT_SECONDS = 180
MARK = 'CVRL_MM_TEST_JOB'  # environment variable that the descendants of a program inherit
context = mp.get_context('forkserver')


def start(function: Callable[..., None], *args: object, env: dict | None = None) -> BaseProcess:
    """Start a process; ``exit_codes`` or ``end`` must follow."""
    context.set_forkserver_preload(PRELOAD)
    handle, report = tempfile.mkstemp(prefix='cvrl_mm_test_')
    os.close(handle)
    process = context.Process(target=_run, args=(report, env or {}, function, args))
    process.report = Path(report)
    process.start()
    return process


def start_ranks(function: Callable[..., None], ranks: int, *args: object) -> list[BaseProcess]:
    """Start the ranks of a job, with the environment that torchrun gives them."""
    job = dict(WORLD_SIZE=str(ranks), MASTER_ADDR='127.0.0.1', MASTER_PORT=free_port())
    return [
        start(function, *args, env=dict(job, RANK=str(rank), LOCAL_RANK=str(rank)))
        for rank in range(ranks)
    ]


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return str(s.getsockname()[1])


def exit_codes(
    processes: list[BaseProcess],
    timeout_seconds: float = TIMEOUT_SECONDS,
    until_failure: bool = False,
) -> list[int]:
    """Wait for processes, and return their exit codes.

    Args:
        processes: From ``start`` or ``start_ranks``.
        timeout_seconds: For all of them together.
        until_failure: Kill the others as soon as one fails.

    Raises:
        TimeoutError: A process did not end in time; the message has the stacks.
        RuntimeError: A process failed, with ``until_failure``; the message has its traceback.
    """
    deadline = time.monotonic() + timeout_seconds
    try:
        while alive := [p for p in processes if p.is_alive()]:
            if until_failure and any(p.exitcode for p in processes):
                break
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                for process in alive:
                    process.terminate()  # writes the stacks
                time.sleep(1)
                raise TimeoutError(f'{len(alive)} processes do not end.\n{_reports(processes)}')
            wait([p.sentinel for p in alive], timeout=remaining)
        if until_failure and any(p.exitcode for p in processes):
            time.sleep(0.5)  # for the traceback of another one that has caused this failure
            raise RuntimeError(_reports(processes))
        return [p.exitcode for p in processes]
    finally:
        end(processes)


def end(processes: list[BaseProcess]) -> None:
    """Kill processes and what they have started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join(10)
        process.report.unlink(missing_ok=True)


def _reports(processes: list[BaseProcess]) -> str:
    return '\n'.join(f'{p.name}: {p.exitcode}\n{p.report.read_text()}' for p in processes)


def _run(report: str, env: dict[str, str], function: Callable[..., None], args: tuple) -> None:
    os.setsid()  # a group of its own, which its loader workers belong to
    with open(report, 'a') as file:
        faulthandler.register(signal.SIGTERM, file, chain=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
        os.environ.update(env)
        torch.set_num_threads(1)
        import tests.cpu_ranks  # noqa: F401

        try:
            function(*args)
        except BaseException:
            traceback.print_exc(file=file)
            raise


def start_program(command: list, **kwargs: object) -> subprocess.Popen:
    """``subprocess.Popen``, in a session of its own; ``end_program`` must follow."""
    env = {**(kwargs.pop('env', None) or os.environ), MARK: uuid4().hex}
    env.setdefault('PYTHONFAULTHANDLER', '1')
    program = subprocess.Popen(
        [str(part) for part in command], env=env, start_new_session=True, text=True, **kwargs
    )
    program.mark = f'{MARK}={env[MARK]}'
    return program


def run_program(
    command: list, timeout_seconds: float = 300, **kwargs: object
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its exit code and output.

    Raises:
        TimeoutError: It did not end in time; the message has its output and, for programs in
            Python, the stacks.
    """
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program = start_program(command, **{**pipes, **kwargs})
    try:
        out, err = program.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        for pid in descendants(program):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)  # faulthandler prints the stacks
        time.sleep(1)
        end_program(program)
        out, err = program.communicate(timeout=10)
        raise TimeoutError(f'{command} does not end.\n{out}\n{err}') from None
    finally:
        end_program(program)
    return subprocess.CompletedProcess(command, program.returncode, out, err)


def end_program(program: subprocess.Popen) -> None:
    """Kill a program and its descendants, also those in sessions of their own."""
    for pid in [*descendants(program), *([program.pid] if program.poll() is None else [])]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    program.wait(10)


def descendants(program: subprocess.Popen) -> list[int]:
    """The ids of a program and its descendants that run, by their environment (Linux)."""
    found = []
    for environ in Path('/proc').glob('[0-9]*/environ'):
        with suppress(OSError):  # it has just ended, or is another user's
            if program.mark.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
    return found
