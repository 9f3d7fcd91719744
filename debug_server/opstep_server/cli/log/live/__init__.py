"""The live table of a tap log: a full screen of its own, with the habits of the debugger's."""
