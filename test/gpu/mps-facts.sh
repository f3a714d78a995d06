#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The story of MPS, told as facts: whatever nvidia-cuda-mps-control is in PATH, with clients beside this
# bundle. The simulated one and NVIDIA's are to tell the same (test/gpu/mps-facts.expected.txt). Changes no setting
# of the card. As root.
#
# On an H100 (driver 580.159.04, 2026-11-23) all of it was told; when a client is killed in its kernel the next one came
# there before the others had ended, and got 807: docs/results/2026-11-23-h100-mps/facts.txt.
set -euo pipefail

if [[ $# -ne 1 || $1 == --help ]]; then
	cat <<-'EOF'
	Usage: test/gpu/mps-facts.sh DIR >FACTS
	       diff test/gpu/mps-facts.expected.txt FACTS

	DIR has cuda-mps and kernels.ptx (build/main/test/cuda). Of one GPU, the first that CUDA sees. Takes a minute.
	Names stand for process ids, times and addresses are left out. The transcript goes to standard error.
	EOF
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
work=$(mktemp -d /tmp/mpsfacts.XXXXXX)
programs=$(mktemp -d /tmp/mpsfacts.XXXXXX) # where every user gets to
chmod 755 "$work" "$programs"
cp "$1/cuda-mps" "$1/kernels.ptx" "$programs/"
client=$programs/cuda-mps
mkdir -m 755 "$work/pipe" "$work/log"
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUDA_MPS_PINNED_DEVICE_MEM_LIMIT CUDA_MPS_CLIENT_PRIORITY
declare -A name=() pid=()
daemon=

finish() {
	local p
	for p in "${pid[@]}" $daemon $(servers); do
		kill -9 "$p" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	rm -rf "$work" "$programs"
}
trap finish EXIT

servers() { [[ ! -e $work/out ]] || sed -nE 's/.*Starting new server ([0-9]+) .*/\1/p' "$work/out"; }

# Process ids by their names, and nothing that is different each time.
plain() {
	local p script=
	for p in "${!name[@]}"; do
		script+="s/\\b$p\\b/${name[$p]}/g;"
	done
	sed -E "s#$work#DIR#g; s/^\[[0-9: .-]+ (Control|Server|Other) +[0-9]+\] /\1: /; s/GPU-[0-9a-f-]{36}/GPU-UUID/g; $script"
}

part() { printf '\n== %s\n' "$*" | tee /dev/stderr; }
fact() { printf '%s\n' "$*"; }

# ctl COMMAND: what it says, and how it ends; 4 seconds at most.
ctl() {
	local status=0
	printf '> %s\n' "$(plain <<<"$*")"
	printf '%s\n' "$*" | timeout 4 nvidia-cuda-mps-control 2>&1 | plain || status=$?
	printf 'exit %s\n' "$status"
}

until_line() { # FILE PATTERN
	local i
	for ((i = 0; i < 200; i++)); do
		grep -qE "$2" "$1" 2>/dev/null && return
		sleep 0.05
	done
	echo "no '$2' in $1" >&2
	cat "$1" >&2
	return 1
}

start_daemon() { # OPTION...
	nvidia-cuda-mps-control -f "$@" >>"$work/out" 2>&1 &
	daemon=$!
	name[$daemon]=CONTROL
	until_line "$work/out" "Control +$daemon\] CUDA MPS Control binary"
	sleep 0.2
}

# begin NAME MODE [SECONDS]: a client in the background, until it is ready.
begin() {
	: >"$work/$1"
	"$client" "$2" "${3-0}" >"$work/$1" 2>&1 &
	pid[$1]=$!
	name[${pid[$1]}]=$1
	until_line "$work/$1" '^(ready|init [1-9])'
}

# ended NAME: waits for it; what it said of its end.
ended() {
	local status=0
	wait "${pid[$1]}" || status=$?
	sed -nE "s/^(loop|destroy|again|launch|sync) /$1: \1 /p" "$work/$1"
	fact "$1: exit $status"
	unset "pid[$1]"
}

# run NAME MODE [SECONDS]: to its end; how it saw the device and its context.
run() {
	local status=0
	: >"$work/$1"
	"$client" "$2" "${3-0}" >"$work/$1" 2>&1 &
	pid[$1]=$!
	name[${pid[$1]}]=$1
	wait "${pid[$1]}" || status=$?
	unset "pid[$1]"
	cat "$work/$1" >&2
	sed -nE "s/^(init|device|context|launch|sync) /$1: \1 /p" "$work/$1"
	sed -nE "s/^filled ([0-9]+) MiB, then (.*)/\1 \2/p" "$work/$1" |
		while read -r mib error; do fact "$1: filled $((mib / 1024)) GiB, then $error"; done
	fact "$1: exit $status"
}

the_server() {
	local s
	s=$(nvidia-cuda-mps-control <<<get_server_list | head -1)
	name[$s]=SERVER
	server=$s
}

mark() { seen=$(wc -l <"$work/out"); }
since() { tail -n "+$((seen + 1))" "$work/out" | plain | grep -E "$1" || true; }
# The daemon writes when it comes to it, which may be after who asked has its answer.
until_since() { # PATTERN
	local i
	for ((i = 0; i < 200; i++)); do
		tail -n "+$((seen + 1))" "$work/out" | grep -qE "$1" && return
		sleep 0.05
	done
	echo "no '$1' in the log" >&2
	return 1
}
files() { (cd "$work/pipe" && stat -c '%A %n' -- * | sort -k 2); }

part nobody serves
ctl get_server_list
run alone idle

part commands without a server
start_daemon -multiuser-server
files
fact "pid file: $(plain <"$work/pipe/nvidia-cuda-mps-control.pid")"
for command in get_server_list get_default_active_thread_percentage get_default_client_priority \
	"get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0 20389M" \
	"get_default_device_pinned_mem_limit 0" "set_default_active_thread_percentage 25" \
	"set_default_active_thread_percentage 250" "set_default_device_pinned_mem_limit 0 xyz" \
	"get_default_device_pinned_mem_limit 0" nonsense ps "get_server_status 1" "get_client_list 1" \
	get_device_client_list help "set_default_client_priority 1" get_default_client_priority \
	"set_default_client_priority 0"; do
	ctl "$command"
done

part a command in the log
mark
ctl "set_default_device_pinned_mem_limit 0 20389M" >/dev/null
until_since 'UI closed'
since .
ctl "set_default_device_pinned_mem_limit 0 0M"

part the first client
mark
run first idle
the_server
since '^(Control: NEW (CLIENT|SERVER)|Control: Starting|Other|Server: (Creating|CUDA|Active|Device pinned|Client|Server has started|Server Priority|Status|Device))'
ctl "get_server_status $server"
ctl "get_client_list $server"

part what a client may ask for
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M run less fill
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=30000M run more fill

part a running server
ctl "get_active_thread_percentage $server"
ctl "set_active_thread_percentage $server 100"
mark
ctl "set_device_pinned_mem_limit $server 0 60G"
sleep 0.1
since '^Server'
ctl "get_device_pinned_mem_limit $server 0"
run changed fill

part two clients
begin a hold 2
begin b hold 2
ctl "get_client_list $server"
ctl get_device_client_list
nvidia-cuda-mps-control <<<ps | awk '{ print $1, $3, $6 }' | plain
ended a
ended b

part an illegal address of one of three
begin a hold 20
begin b hold 20
mark
run bad bad
ended a
ended b
sleep 0.2
since 'encountered|is handling|torn down|will be reset|^Server: 0$|sticky|^Server: (a|b|bad)$|^Server: (Destroy|Creating server)'
ctl "get_server_status $server"
mark
run next idle
since '^Server: Creating server'
ctl get_server_list

part a trap
begin a hold 20
mark
run trapped trap
ended a
sleep 0.2
since 'encountered|is handling|torn down|sticky|^Server: (a|trapped)$'
run next idle

part a client is killed in its kernel
begin a hold 2
begin long long 30
sleep 0.3
kill -9 "${pid[long]}"
ended long 2>/dev/null
ended a
sleep 0.2
run next idle

part terminate_client
begin a hold 20
mark
ctl "terminate_client $server ${pid[a]}"
ended a
since 'requesting|termination'

part the server is killed
begin a hold 20
mark
kill -9 "$server"
ended a >"$work/end"
grep loop "$work/end"
since '^Control: Server'
run next idle
old=$server
the_server
[[ $server != "$old" ]] && fact "another server"

part quit while there is a client
begin a hold 3
mark
nvidia-cuda-mps-control <<<quit >"$work/quit" 2>&1 &
pid[quit]=$!
until_line "$work/out" 'again in at most 400ms'
run late idle
ctl get_server_list
ended a
ended quit
since '^Control: (Cmd|Try|Server|Control|Exit|Force)|^Server: (Server (has been|was)|Waiting|Exiting)' | uniq | head -8
since '^Control: (Server .* exited|Exit)|^Server: (Waiting|Exiting)'
wait "$daemon" && fact "daemon: exit 0"
files

part a second daemon, and a quit that gives up
start_daemon -multiuser-server
status=0
nvidia-cuda-mps-control -f 2>&1 || status=$?
fact "exit $status"
begin a hold 4
the_server
mark
ctl "quit -t 1"
since 'timeout|Force'
run late idle
ctl get_server_list
ended a
kill -0 "$daemon" && fact "daemon: lives"
for p in $daemon $(servers); do
	kill -9 "$p" 2>/dev/null || true
done
wait "$daemon" 2>/dev/null || true
sleep 0.5

part one user at a time
start_daemon
begin a hold 2
setpriv --reuid 1000 --regid 1000 --clear-groups "$client" idle >"$work/other" 2>&1 &
pid[other]=$!
sleep 0.5
[[ -s $work/other ]] || fact "other: waits"
ended a
ended other
grep -E '^(init|device|context)' "$work/other"
ctl quit

part a directory that cannot be reached
start_daemon -multiuser-server
chmod 700 "$work"
status=0
setpriv --reuid 1000 --regid 1000 --clear-groups "$client" idle | grep -E '^(init|device|context)' || status=$?
fact "exit $status"
ctl quit
daemon=
