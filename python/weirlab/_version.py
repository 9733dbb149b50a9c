"""The version of the package, that of the command beside which it was written."""

__version__ = "0.1.0"
