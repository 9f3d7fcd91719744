#!/usr/bin/env bash
# progress.sh TITLE COMMAND...: run a long command with its output in a log, and show how far it is:
# ninja's [123/310], the package of pip or apt. One rewritten line on a terminal, else a line every
# 20 seconds. The log is shown when the command fails.
set -euo pipefail
title=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$root/build"
log=$(mktemp "$root/build/progress-XXXXXX.log")
terminal=0
[[ ! -t 1 ]] || terminal=1

detail() {
  tail -c 4000 "$log" | tr '\r' '\n' |
    grep -oE '\[[0-9]+/[0-9]+\]|^ *(Collecting|Downloading|Installing collected packages|Building wheel|Preparing [a-z]+ metadata|Get:[0-9]+|Unpacking|Setting up)[^(]{0,40}' |
    tail -n 1 | sed -E 's/^ +| +$//g' || true
}

watch() {
  local shown=0
  while sleep 1; do
    if ((terminal)); then
      printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$title: $((SECONDS)) s $(detail)"
    elif ((SECONDS >= shown + 20)); then
      shown=$SECONDS
      echo "$title: $SECONDS s $(detail)"
    fi
  done
}

watch &
watcher=$!
end() {
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  ((!terminal)) || printf '\r\033[K'
}
trap end EXIT

# In the foreground, so that Ctrl-C reaches it.
status=0
"$@" >"$log" 2>&1 || status=$?
trap - EXIT
end
if ((status)); then
  cat "$log" >&2
  echo "$title failed; the log is $log" >&2
  exit "$status"
fi
rm -f "$log"
((SECONDS < 2)) || echo "$title: done in $SECONDS s"
