"""Files of a tap log, read while it grows or later."""
