"""Run functions and programs in processes of their own, each with a time limit.

At its limit a job is killed with all its descendants, and the error shows its output, with the
Python stacks. No process outlives the call that waits for it.
"""

import faulthandler
import multiprocessing as mp
import os
import signal
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import torch

# A server imports these once; a process forked from it starts within milliseconds and shares
# nothing else with this one.
PRELOAD = ['cvrl_mm', 'mmaction.models', 'torch._dynamo']
TIMEOUT_SECONDS = 180
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


def exit_codes(
    processes: list[BaseProcess],
    timeout_seconds: float = TIMEOUT_SECONDS,
    until_failure: bool = False,
) -> list[int]:
    """Wait for processes, and return their exit codes.

    Args:
        processes: From ``start`` or ``ranks.start_ranks``.
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
            if not wait([p.sentinel for p in alive], max(0, deadline - time.monotonic())):
                for process in alive:
                    process.terminate()  # writes the stacks
                time.sleep(1)
                raise TimeoutError(f'{len(alive)} processes do not end.\n{_reports(processes)}')
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
        import tests.ranks  # noqa: F401

        try:
            function(*args)
        except BaseException:
            traceback.print_exc(file=file)
            raise


def run_program(
    command: list, timeout_seconds: float = 300, **kwargs: object
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its exit code and output.

    Raises:
        TimeoutError: It did not end in time; the message has its output.
    """
    command = [str(part) for part in command]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen(command, start_new_session=True, **pipes, **kwargs) as program:
        try:
            out, err = program.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            parent = psutil.Process(program.pid)
            for process in (*parent.children(recursive=True), parent):
                process.kill()
            out, err = program.communicate()
            raise TimeoutError(f'{command} does not end.\n{out}\n{err}') from None
    return subprocess.CompletedProcess(command, program.returncode, out, err)
