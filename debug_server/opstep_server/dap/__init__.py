"""The Debug Adapter Protocol on top of the `Debugger`; nothing outside this folder knows it."""
