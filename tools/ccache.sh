#!/bin/sh
# ccache.sh COMPILER ARGS...: the launcher that CMakeLists.txt gives the compiler.
# What one clone has compiled, another need not.
CCACHE_BASEDIR=$(dirname "$(dirname "$0")")
CCACHE_NOHASHDIR=1
# For precompiled headers, whose time does not matter.
CCACHE_SLOPPINESS=pch_defines,time_macros
# A file that is not in the cache is not preprocessed first.
CCACHE_DEPEND=1
export CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_SLOPPINESS CCACHE_DEPEND
# An old precompiled header would be taken for a part of the new one's input.
for word; do
  case $word in *.gch) rm -f "$word" ;; esac
done
exec ccache "$@"
