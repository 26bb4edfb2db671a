#!/bin/sh
# Throughput of `ftlab serve` beside `nbdkit memory`, with fio's nbd engine: sequential writes and reads of 1 MiB, random
# ones of 4 KiB with 16 requests in flight. Every job runs three times on each server in turn; the medians are compared.
#
#   benches/serve.sh [DIRECTORY]     the image stands in DIRECTORY (the system's temporary one if none is named)
#
# FTLAB names the program (target/release/ftlab), SCHEMES the schemes (page). Wants an idle machine, 5 GiB in the
# directory and half a minute for each scheme; the first line says on which file system the image was.
set -eu
ftlab=$(realpath "${FTLAB:-target/release/ftlab}")
schemes=${SCHEMES:-page}
base=${1:-${TMPDIR:-/tmp}}
for program in fio nbdkit "$ftlab"; do
  command -v "$program" >/dev/null || { echo "$0: $program is not there" >&2; exit 2; }
done
work=$(mktemp -d "$base/ftlab-serve.XXXXXX")
server=
stop() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  server=
}
trap 'stop; rm -rf "$work"' EXIT INT TERM
cd "$work"

# MB/s of one job: NAME SOCKET LENGTH ARGUMENTS...
job() {
  name=$1 socket=$2 length=$3
  shift 3
  fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --size="$length" --randrepeat=1 \
    --output-format=terse --terse-version=3 "$@" | awk -F';' '/^3;/ { printf "%.1f\n", ($7 + $48) * 1024 / 1e6 }'
}
wait_for() {
  for _ in $(seq 200); do [ -S "$1" ] && return; sleep 0.05; done
  echo "$0: no server at $1" >&2
  exit 1
}
# Every job on one server, once; a line each. They use 2 GiB, written first, so that reads find something; the device
# has twice as much, so that no collection comes between.
round() {
  target=$1 socket=$2
  { echo "seqwrite $(job seqwrite "$socket" 2g --rw=write --bs=1m --iodepth=4)"
    echo "seqread $(job seqread "$socket" 2g --rw=read --bs=1m --iodepth=4)"
    echo "randwrite $(job randwrite "$socket" 2g --rw=randwrite --bs=4k --iodepth=16 --io_size=512m)"
    echo "randread $(job randread "$socket" 2g --rw=randread --bs=4k --iodepth=16 --io_size=512m)"
  } | sed "s/^/$target /" | tee -a results
}

echo "$("$ftlab" --version), $(nproc) cores, image on $(stat -f -c %T .)"
for scheme in $schemes; do
  for repeat in 1 2 3; do
    rm -f image
    "$ftlab" image create image --device agrawal08:capacity=4GiB,spare=12.5% --scheme "$scheme" >/dev/null
    "$ftlab" serve --image image --scheme "$scheme" --socket ours >serve.log & server=$!
    wait_for ours
    round "$scheme" ours
    stop
    rm -f theirs
    nbdkit --foreground --unix theirs memory 4G & server=$!
    wait_for theirs
    round nbdkit theirs
    stop
  done
done
echo
echo 'medians, MB/s:'
for scheme in $schemes; do
  for name in seqwrite seqread randwrite randread; do
    median() { awk -v t="$1" -v n="$name" '$1 == t && $2 == n { print $3 }' results | sort -n | awk '{ a[NR] = $1 }
      END { print a[int((NR + 1) / 2)] }'; }
    awk -v s="$scheme" -v n="$name" -v a="$(median "$scheme")" -v b="$(median nbdkit)" \
      'BEGIN { printf "%-8s %-10s %8.1f   nbdkit memory %8.1f   %3.0f %%\n", s, n, a, b, 100 * a / b }'
  done
done
