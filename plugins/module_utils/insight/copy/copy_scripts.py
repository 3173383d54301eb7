# SPDX-License-Identifier: BSD-2-Clause
"""The shell scripts that read and write the files of a container: for any POSIX shell, with GNU or busybox tools.

All names that they read and print start with ``./``. Every script that reads stdin reads all of it (kube/exec.py).
"""

from __future__ import annotations

from collections.abc import Sequence

# The prefix of directories that hold files until all are complete. They are never copied.
STAGE = ".gpuctl-copy."

# First lines of a listing; the entries follow.
DIRECTORY, FILE, OTHER, MISSING = "directory", "file", "other", "missing"
LACKS, NO_DIGESTS, SPACE = "lacks", "no-digests", "space"

# Exit codes of a copy: the checksum is wrong; it failed after the first change to the destination.
CORRUPTED, INCOMPLETE = 90, 91


def list_source(path: str) -> list[str]:
    """A command that lists a file, or everything in a directory."""
    return _shell_command(_LIST_SOURCE, path)


def list_dest(path: str, names_size: int) -> list[str]:
    """A command that lists those files of a directory whose names are on its stdin (NUL-terminated)."""
    return _shell_command(_LIST_DEST, str(names_size), path)


def send_files(root: str, names_size: int) -> list[str]:
    """A command that prints the contents of the files whose names are on its stdin, one after the other."""
    return _shell_command(_SEND, str(names_size), root)


def receive_files(root: str, stage: str, size: int) -> list[str]:
    """A command that puts the files of an archive (copy_archive.py) on its stdin in place, once all are complete."""
    return _shell_command(_RECEIVE, str(size), root, stage)


def _shell_command(script: str, *arguments: str) -> list[str]:
    return ["sh", "-c", script, "sh", *arguments]


# Lists the files that are its arguments: ``s``, mode in hexadecimal, size and name; for a link, its target in another
# line; for files, their digests as sha256sum prints them.
_LIST = """
list='
stat -c "s %f %s %n" "$@" 2>/dev/null
for f; do
  shift
  if [ -L "$f" ]; then printf "l %s\\n" "$f"; readlink "$f"
  elif [ -f "$f" ]; then set -- "$@" "$f"; fi
done
[ $# = 0 ] || ! command -v sha256sum >/dev/null || sha256sum "$@"
:'
needs() {
  lacks=
  for tool; do command -v "$tool" >/dev/null || lacks="$lacks $tool"; done
  [ -z "$lacks" ] || { echo "lacks$lacks"; return 1; }
  command -v sha256sum >/dev/null || echo no-digests
}
"""

_LIST_SOURCE = f"""{_LIST}
needs cat find head stat xargs || exit 0
path=$1
if [ -d "$path" ]; then
  echo directory
  cd "$path" && find . -name '{STAGE}*' -prune -o -exec sh -c "$list" sh {{}} +
elif [ -f "$path" ]; then
  echo file
  case $path in
    */*) cd "${{path%/*}}/" || exit; path=${{path##*/}} ;;
  esac
  stat -L -c "s %f %s %n" "./$path" && ! command -v sha256sum >/dev/null || sha256sum "./$path"
elif [ -e "$path" ]; then echo other
else echo missing
fi
"""

# Runs ``main`` with the announced number of bytes as stdin, and reads what it leaves.
_WITH_STDIN = """
head -c "$1" | { shift; main "$@"; code=$?; cat >/dev/null; exit $code; }
"""

_LIST_DEST = f"""{_LIST}
main() {{
  needs cat chmod find head mkdir mv rm stat tar xargs || return 0
  base=$1
  while [ ! -d "$base" ]; do
    case $base in /*/*|[!/]*/*) base=${{base%/*}} ;; /*) base=/ ;; *) base=. ;; esac
  done
  space=$(df -Pk "$base" 2>/dev/null | awk 'END {{ print $4 }}' 2>/dev/null) && echo "space $space"
  if [ -d "$1" ]; then
    echo directory
    cd "$1" && xargs -0 sh -c "$list" sh
  elif [ -e "$1" ]; then echo other
  else echo missing
  fi
}}
{_WITH_STDIN}
"""

_SEND = f"""
main() {{ cd "$1" && xargs -0 cat; }}
{_WITH_STDIN}
"""

_RECEIVE = f"""
move='target=$1/$2; shift 2; mv -f "$@" "$target/"'
move_each='root=$1; shift
for d; do find "$d" -maxdepth 1 ! -type d -exec sh -c "$move" sh "$root" "$d" {{}} + ; done'
export move move_each
receive() {{
  (umask 0; EXTRACT_UNSAFE_SYMLINKS=1 tar -x -o -f - -C "$stage") || return 1
  [ -f "$stage/complete" ] && cd "$stage/tree" || return 1
  if command -v sha256sum >/dev/null && [ -s ../names ]; then
    sum=$(xargs -0 cat < ../names | sha256sum)
    [ "${{sum%% *}}" = "$(cat ../complete)" ] || return {CORRUPTED}
  fi
  mkdir -p "$root" && cd "$root" || return {INCOMPLETE}
  [ ! -s "$stage/directories" ] || xargs -0 mkdir -p < "$stage/directories" || return {INCOMPLETE}
  cd "$stage/tree" && find . -type d -exec sh -c 'eval "$move_each"' sh "$root" {{}} +
  [ -z "$(find . ! -type d)" ] && cd "$root" || return {INCOMPLETE}
  for list in "$stage"/modes/*; do
    [ ! -f "$list" ] || xargs -0 chmod "${{list##*/}}" < "$list" || return {INCOMPLETE}
  done
}}
main() {{
  case $1 in /*) root=$1 ;; *) root=$(pwd)/$1 ;; esac
  base=$root
  while [ ! -d "$base" ]; do base=${{base%/*}}; base=${{base:-/}}; done
  stage=$base/$2
  mkdir -m 700 "$stage" || return 1
  trap 'cd /; rm -rf "$stage"; exit 1' HUP INT TERM
  receive
  code=$?
  cd / && rm -rf "$stage"
  return $code
}}
{_WITH_STDIN}
"""


def names_list(names: Sequence[str]) -> bytes:
    """The names for stdin."""
    from os import fsencode

    return b"".join(b"./" + fsencode(name) + b"\0" for name in names)
