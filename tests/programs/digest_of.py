"""Runs a script, then prints a digest of all that it printed and of every variable it left."""

import contextlib
import hashlib
import io
import runpy
import sys

import opstep

script = sys.argv[1]
sys.argv = sys.argv[1:]
printed = io.StringIO()
with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
    runpy.run_path(script, run_name="__main__")
digest = hashlib.sha256(printed.getvalue().encode())
scope = opstep.global_scope()
for name in scope.names():
    digest.update(name.encode() + scope.find(name).tobytes())
print("digest", digest.hexdigest(), flush=True)
