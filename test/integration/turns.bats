#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Turns of real processes on a simulated GPU: shares, classes and changes of them. Libraries, arbiter and
# scheduler together.

bats_require_minimum_version 1.5.0
load lib
load slice
load turns

setup_file() {
	stage_programs
}

setup() {
	slice_node_setup
}

teardown() {
	slice_node_teardown
}

@test "a slice alone is not throttled, beside another one it is" {
	start_arbiter
	turns a
	turns b
	burn a
	eventually 10 gate_is a 0
	goes_on a
	gate_is a 0
	burn b
	# Each process has the quantum, and has not, as long as both want.
	eventually 10 gate_is a 2
	eventually 10 gate_is b 2
	eventually 10 gate_is a 1
	eventually 10 gate_is b 1
	run ! gate_is a 0
	account a '.launches > 100 and .charged_ns > 0 and .turns > 1 and .waits > 0 and .wait_ns > 0'
	ends b
	eventually 10 gate_is a 0
	ends a
	eventually 10 nobody_there
}

@test "shares follow weights: of two" {
	start_arbiter
	turns a 1
	turns b 3
	burn a
	burn b
	comes_to 1500 20 58 a b
	# What was charged says the same.
	local a0 b0 a1 b1
	a0=$(account a .charged_ns) b0=$(account b .charged_ns)
	measure 1500 a b
	a1=$(account a .charged_ns) b1=$(account b .charged_ns)
	DID=([a]=$(((a1 - a0) / 1000000)) [b]=$(((b1 - b0) / 1000000)))
	ratio 20 58 a b
	ends a b
}

# Where the processors are loaded one of the programs may not come to use its share for a while. Without weights
# they would not come to stand in this order, and so far apart.
by_weight() {
	echo "${DID[a]} ${DID[b]} ${DID[c]} ${DID[d]}"
	((DID[a] < DID[b] && DID[b] < DID[c] && DID[c] < DID[d])) && ratio 200 700 d a
}

@test "shares follow weights: of four" {
	local name weight=0 _
	start_arbiter
	for name in a b c d; do
		# A cap that leaves all there is: where the processors are too slow to keep the GPU busy, as under
		# a sanitizer, they would go together else, whatever they weigh.
		turns "$name" $((++weight)) batch 999999
		burn "$name"
	done
	goes_on a b c d
	for _ in 1 2 3 4 5; do
		measure 3000 a b c d
		! by_weight || break
	done
	by_weight
	ends a b c d
	eventually 10 nobody_there
	# All time in which anybody had work is charged to somebody, once.
	arbiter_status '([.slices[].gpus[].charged_ns] | add) == .gpus[0].busy_ns'
}

@test "several processes of a slice have one share" {
	local _
	start_arbiter
	turns a
	turns b
	burn a
	burn b
	burn b2 b
	burn b3 b
	goes_on a b b2 b3
	# Where the processors are loaded, the one process has less of them than the three. Three shares would
	# be 33 %, however often one looks.
	for _ in 1 2 3 4 5; do
		measure 2000 a b b2 b3
		DID[b]=$((${DID[b]} + ${DID[b2]} + ${DID[b3]}))
		! ratio 58 172 a b || break
	done
	ratio 58 172 a b
	ends a b b2 b3
}

@test "a cap limits a slice that has the GPU alone" {
	local began
	start_arbiter
	turns a 1 batch 200000
	burn a
	goes_on a
	began=$(date +%s%N)
	measure 400 a
	account a '.quantum_ends.cap > 0 and .quantum_ends.expired == 0'
	# 400 ms of work, a fifth of the GPU: 2 s; one without a cap would take no half of that.
	(($(date +%s%N) - began > 1000000000))
	# Other slices do not gain where there is one.
	turns b
	burn b
	comes_to 1500 5 50 a b
	ends a b
}

go_together() { # NAME...
	local name
	arbiter_status '.gpus[0].together' || return 1
	for name in "$@"; do
		gate_is "$name" 0 || return 1
	done
}

@test "slices that leave the GPU idle run concurrently, until one comes that does not" {
	start_arbiter
	turns a
	turns b
	turns c
	# Half of the GPU each, and the processor has the next kernel ready only when the last one is over.
	burn a a --depth 64 --pace-us 2000
	burn b b --depth 64 --pace-us 2000
	eventually 60 go_together a b
	goes_on a b
	# Beside another one that waits for each of its kernels they would have nearly all.
	burn c c --depth 1 --work 300000
	eventually 30 arbiter_status '.gpus[0].together | not'
	eventually 10 gate_is a 2
	goes_on a b c
	ends a b c
}

# bursts_as CLASS: of the slice l, beside a and b; WAITED is how often its gate was closed.
bursts_as() {
	turns l 1 "$1"
	WAITED=$(account l '.waits // 0')
	in_slice l "$PROGRAMS/cuda-latency" --work 4000000 --burst 3 --period-ms 100 --seconds 5 \
		>"$NODE_DIR/l.out" 2>&1
	cat "$NODE_DIR/l.out"
	tail -1 "$NODE_DIR/l.out" | jq -e '.burst_p50_ns > 0'
	WAITED=$(($(account l .waits) - WAITED))
	measure 500 a b
	ratio 50 200 a b
}

@test "a slice of class latency is served at once, and batch continues" {
	start_arbiter
	turns a
	turns b
	burn a
	burn b
	bursts_as batch
	((WAITED > 10))
	# The bursts are less than the slice's share: its gate is never closed. Where the processors are loaded, a and b
	# may have too little work for that to be so every time.
	for _ in 1 2 3 4 5; do
		bursts_as latency
		((WAITED)) || break
	done
	((WAITED == 0))
	ends a b
}

@test "compute is switched on, changed, and switched off under load" {
	start_arbiter
	put_slice a "\"memory\": $((4 * GIB))"
	put_slice b "\"memory\": $((4 * GIB))"
	burn a
	burn b
	goes_on a b
	run ! gate a
	turns a 1
	turns b 3
	eventually 10 gate_is a 2
	comes_to 1500 20 58 a b
	turns b 1
	turns a 3
	comes_to 1500 172 500 a b
	turns a 3 batch 100000
	comes_to 1500 2 35 a b
	turns a 1 latency
	comes_to 1500 50 200 a b
	arbiter_status '[.slices[].class] | sort == ["batch", "latency"]'
	turns a 1
	# One of them without turns has none to wait for; the other one goes on with its own.
	put_slice b "\"memory\": $((4 * GIB))"
	eventually 10 arbiter_status '[.slices[].compute] | sort == [null, "turns"]'
	goes_on a b
	put_slice a "\"memory\": $((4 * GIB))"
	eventually 10 arbiter_status '[.slices[].compute] == [null, null]'
	goes_on a b
	turns a 1
	turns b 3
	comes_to 1500 20 58 a b
	ends a b
	eventually 10 nobody_there
}

@test "every form of work has the same result beside others as alone" {
	local bare alone beside
	start_arbiter
	turns a
	turns b
	turns m
	bare=$("$PROGRAMS/cuda-mix" --threads 2 --rounds 150 --check-every 10 --seed 5 | tail -1)
	alone=$(in_slice m "$PROGRAMS/cuda-mix" --threads 2 --rounds 150 --check-every 10 --seed 5 | tail -1)
	burn a
	burn b
	beside=$(in_slice m timeout 200 "$PROGRAMS/cuda-mix" --threads 2 --rounds 150 --check-every 10 --seed 5 --burn 100000 | tail -1)
	printf '%s\n' "$bare" "$alone" "$beside"
	[[ $bare == result=ok* && $alone == "$bare" && $beside == "$bare" ]]
	account m '.turns > 3'
	ends a b
}

# The stream waits for a value that the host writes once it has submitted the rest. If the gate closes in
# between, what is in flight cannot end before the next turn.
@test "a blocked process with a stream that waits for it is not counted as busy" {
	start_arbiter
	turns a
	turns b
	turns m
	burn a
	burn b
	in_dir m "$(slice_dir m)" cuda-mix --threads 0 --rounds 10000 --check-every 1000 --only values-host --burn 300000
	eventually 120 logged m '^result='
	cat "$NODE_DIR/m.log"
	logged m '^result=ok steps=[1-9][0-9]* lacking=0'
	account m '.turns > 3'
	run ! logged arbiter 'does not end'
	goes_on a b
	ends a b
}
