"""What can go wrong, by whose fault it is."""


class Refusal(ImportError):
    """The guest asks for what this runtime does not simulate; the text says what, where and what there is."""


class NameRefusal(AttributeError):
    """As a Refusal, of a name that a stand-in lacks."""


class StatementLimit(BaseException):
    """A guest ran too many statements where it cannot be preempted. A limit of ours, never a verdict."""


class FrameError(Exception):
    """What came through the pipe is not of the protocol."""
