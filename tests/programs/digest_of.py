"""Runs a script, then prints a digest of all that it printed and of every value it left: variables
of the scope, and what layers keep."""

import contextlib
import hashlib
import io
import sys
from pathlib import Path

import opstep

script = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(script).parent)
printed, left = io.StringIO(), {"__name__": "__main__", "__file__": script}
with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
    exec(compile(Path(script).read_text(), script, "exec"), left)
digest = hashlib.sha256(printed.getvalue().encode())
scope = opstep.global_scope()
for name in scope.names():
    digest.update(name.encode() + scope.find(name).tobytes())
for layer in left.values():
    if isinstance(layer, opstep.imperative.Layer):
        for name, value in layer.state_dict().items():
            digest.update(name.encode() + value.tobytes())
print("digest", digest.hexdigest(), flush=True)
