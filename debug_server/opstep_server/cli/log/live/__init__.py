"""The live table of a tap log: a full screen with the same keys as the debugger's."""
