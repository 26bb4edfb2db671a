#!/bin/sh
# Records block traces of real programs on ext4 over `ftlab serve --capture`, for `ftlab compare`.
#
#   scripts/captures.sh [NAME...]     postmark largefile 4vms (all of them if none is named)
#
#   SIZE=minute|full   how much is done (minute)
#   CAPTURES=DIR       where the traces go (../captures)
#   FTLAB=PROGRAM      the program (target/release/ftlab)
#
# postmark   PostMark: 80,000 small files, 1,000,000 transactions (minute: 16,000 and 100,000).
# largefile  MP3 files of 4 MB on average are created and deleted, ten creations to a deletion, until there are more than
#            10,000 (minute: 400); section 5.1 of the ROSE thesis says no more than that. Sizes are uniform from 2 to 6 MB.
# 4vms       A file server, a web proxy, a mail server and an OLTP database at once, for an hour (minute: 60 s), each on an
#            image of its own, hence four traces. The thesis ran FileBench in four virtual machines; here fio does what
#            those profiles say of file sizes, request sizes, reads to writes, and synchronous writes.
#
# The host's cache would swallow most of it. So the programs run in a memory cgroup (version 1 or 2) of 64 to 128 MiB (full:
# 256 MiB, 1 GiB for the four), which holds the pages of their files too: what does not fit goes to the device and is read again.
#
# Needs root, FUSE, loop devices, nbdfuse, mkfs.ext4, and postmark or fio. At full size the images take up to 2 GiB,
# 50 GiB and 25 GiB in the system's temporary directory (TMPDIR), one after the other.
set -eu
size=${SIZE:-minute}
out=${CAPTURES:-../captures}
ftlab=${FTLAB:-target/release/ftlab}
[ $# -gt 0 ] || set -- postmark largefile 4vms
PATH=$PATH:/usr/sbin:/sbin

missing=
lack() { missing="$missing
  $1"; }
case $size in minute | full) ;; *) lack "SIZE is minute or full, not $size" ;; esac
for name; do
  case $name in postmark | largefile | 4vms) ;; *) lack "no capture named $name" ;; esac
done
for program in "$ftlab" nbdfuse mkfs.ext4 losetup mount umount fusermount3 fio postmark; do
  command -v "$program" >/dev/null || lack "the program $program"
done
[ "$(id -u)" = 0 ] || lack "root, who alone may mount"
[ -e /dev/fuse ] || lack "/dev/fuse"
[ -e /dev/loop-control ] || lack "loop devices"
if grep -qs memory /sys/fs/cgroup/cgroup.controllers; then
  groups=/sys/fs/cgroup limit=memory.max
  echo +memory >$groups/cgroup.subtree_control 2>/dev/null || lack "a memory cgroup that may be used"
elif [ -w /sys/fs/cgroup/memory/cgroup.procs ]; then
  groups=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
else
  lack "a memory cgroup, to keep the host's cache small"
fi
[ -z "$missing" ] || { echo "$0: nothing was recorded; missing:$missing" >&2; exit 2; }

ftlab=$(realpath "$ftlab")
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d "${TMPDIR:-/tmp}/ftlab-captures.XXXXXX")
group=$groups/ftlab-captures-$$
servers= fuses= loops=

take_down() {
  for root in "$work"/root-*; do umount "$root" 2>/dev/null || true; done
  for loop in $loops; do losetup -d "$loop" 2>/dev/null || true; done
  for fuse in "$work"/fuse-*; do
    [ -e "$fuse/disk" ] || continue
    for _ in $(seq 100); do fusermount3 -u "$fuse" 2>/dev/null && break; sleep 0.1; done
  done
  for fuse in $fuses; do wait "$fuse" 2>/dev/null || true; done
  for server in $servers; do kill "$server" && wait "$server" || true; done
  servers= fuses= loops=
  rm -f "$work"/image-*
}
trap 'take_down; rmdir "$group" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$group"

# Serves a new image, captured in NAME-SIZE.iolog.zst, and mounts ext4 on it at root-NAME: NAME CAPACITY, in MiB.
bring_up() {
  image=$work/image-$1 socket=$work/socket-$1 fuse=$work/fuse-$1 root=$work/root-$1 trace=$out/$1-$size.iolog.zst
  rm -f "$trace"
  "$ftlab" image create "$image" --device "agrawal08:capacity=${2}MiB,spare=12.5%" --scheme page >/dev/null
  "$ftlab" serve --image "$image" --scheme page --socket "$socket" --capture "$trace" >"$work/serve-$1.log" &
  servers="$servers $!"
  for _ in $(seq 100); do [ -S "$socket" ] && break; sleep 0.1; done
  mkdir -p "$fuse" "$root"
  nbdfuse "$fuse/disk" "nbd+unix:///?socket=$socket" &
  fuses="$fuses $!"
  for _ in $(seq 100); do [ -e "$fuse/disk" ] && break; sleep 0.1; done
  loop=$(losetup --find --show "$fuse/disk")
  loops="$loops $loop"
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
  mount "$loop" "$root"
}

# Runs a program with little memory, in MiB: MEMORY PROGRAM...
confined() {
  echo $(($1 << 20)) >"$group/$limit"
  shift
  sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$@"
}

record_postmark() {
  case $size in
    full) files=80000 transactions=1000000 capacity=2048 memory=64 ;;
    minute) files=16000 transactions=100000 capacity=512 memory=16 ;;
  esac
  bring_up postmark $capacity
  printf 'set location %s\nset number %s\nset transactions %s\nset seed 42\nrun\nquit\n' \
    "$work/root-postmark" $files $transactions >"$work/script"
  confined $memory postmark "$work/script" >"$work/said"
}

record_largefile() {
  case $size in
    full) files=10000 capacity=57344 memory=256 ;;
    minute) files=400 capacity=2560 memory=64 ;;
  esac
  bring_up largefile $capacity
  head -c 6000000 /dev/urandom >"$work/song"
  # Lines of "create NAME BYTES" and "delete NAME"; which one is deleted is drawn among those there are.
  awk -v most=$files 'BEGIN {
    srand(1)
    while (count <= most) {
      there[count++] = ++number
      print "create", number, int(2000000 + rand() * 4000000)
      if (number % 10 == 0) {
        gone = int(rand() * count)
        print "delete", there[gone], 0
        there[gone] = there[--count]
      }
    }
  }' >"$work/plan"
  confined $memory sh -c 'while read -r verb name bytes; do
      case $verb in
        create) head -c "$bytes" "$1/song" >"$1/root-largefile/$name.mp3" ;;
        delete) rm "$1/root-largefile/$name.mp3" ;;
      esac
    done <"$1/plan"' sh "$work"
}

record_4vms() {
  case $size in
    full) seconds=3600 capacity=6144 memory=1024 files=10000 database=4g ;;
    minute) seconds=60 capacity=256 memory=128 files=400 database=128m ;;
  esac
  for machine in file-server web-proxy mail-server oltp; do bring_up 4vms-$machine $capacity; done
  cat >"$work/jobs" <<JOBS
[global]
ioengine=psync
time_based=1
runtime=$seconds
randseed=42
fallocate=none
file_service_type=random:4
openfiles=64
thinktime=1000
thinktime_blocks=4

[file-server]
directory=$work/root-4vms-file-server
nrfiles=$files
filesize=64k-192k
rw=randrw
rwmixread=33
bssplit=16k/50:64k/30:128k/20

[web-proxy]
directory=$work/root-4vms-web-proxy
nrfiles=$((files * 4))
filesize=4k-32k
rw=randrw
rwmixread=83
bs=4k-16k

[mail-server]
directory=$work/root-4vms-mail-server
nrfiles=$((files * 4))
filesize=4k-32k
rw=randrw
rwmixread=50
bs=4k-16k
fsync=1

[oltp]
directory=$work/root-4vms-oltp
size=$database
rw=randrw
rwmixread=75
bs=2k
sync=dsync
JOBS
  confined $memory fio --output="$work/said" "$work/jobs"
}

for name; do
  began=$(date +%s)
  "record_$name"
  take_down
  echo "$name: $(($(date +%s) - began)) s"
  wc -c "$out/$name"*-"$size.iolog.zst"
done
