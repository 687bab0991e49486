"""The threads of the panes: for what the kernel does not do without waiting.

Owns a pool apart from the loop's own, so that a slow git command never delays the end of an agent.
Used for starting a child, looking at the process table and closing a terminal.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_POOL: Final = ThreadPoolExecutor(2, thread_name_prefix="pane")


def in_thread(
    function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> asyncio.Future[_T]:
    """Run `function` in one of the threads; the future has what it returned or raised."""
    call = functools.partial(function, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_POOL, call)
