"""The kernel that all stand-ins share: there is one in a child process."""

from ..kernel import Kernel

KERNEL = Kernel()
