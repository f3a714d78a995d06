#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice cost: from a ledger, and from a Prometheus server.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	node_setup
	export no_proxy='*'
	mkdir -p "$GPUSLICE_STATE_DIR"
	LEDGER=$GPUSLICE_STATE_DIR/ledger.db
}

teardown() {
	node_teardown
}

# Ten minutes of a node with four GPUs: a replica of four, a whole GPU, a MIG instance and what is idle.
make_ledger() {
	"$GPUSLICE_BUILD/test/support/make-ledger" "$LEDGER" <<-'END'
		period|1767225600|node-1|p3.8xlarge|us-east-1|USD|catalogue 2026-07-20|12240000000|4|300000000000
		held|team-a|web-0|u1|main|GPU-0|GPU-0|nvidia.com/gpu.shared|time-slicing|300000000000|75000000000|30000000000|63750000
		held|team-b|train-0|u2|main|GPU-1|GPU-1|nvidia.com/gpu|exclusive|300000000000|300000000000|-|255000000
		held|=cmd()|x|u3|main|GPU-2|MIG-2|nvidia.com/mig-1g.5gb|mig|100000000000|14285714285|1|12142857
		idle|GPU-0|225000000000|191250000
		idle|GPU-2|285714285715|242857143
		idle|GPU-3|300000000000|255000000
		period|1767225900|node-1|p3.8xlarge|us-east-1|USD|catalogue 2026-07-20|12240000000|4|300000000000
		held|team-a|web-0|u1|main|GPU-0|GPU-0|nvidia.com/gpu.shared|time-slicing|300000000000|75000000000|30000000000|63750000
		idle|GPU-0|1125000000000|956250000
	END
}

january() {
	"$GPUSLICE" cost --from 2026-01-01 --to 2026-01-02 "$@"
}

# cells: the words of each row of a table, one blank between.
cells() {
	sed -E '1,/^$/d; s/ +/ /g; s/ $//'
}

@test "a table by namespace: allocated, used, cost, and the sum" {
	make_ledger
	run -0 january
	[[ ${lines[0]} == '2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z' ]]
	[[ ${lines[1]} == 'node-1, p3.8xlarge in us-east-1, 4 GPUs: 12.24 USD per hour (catalogue 2026-07-20), 10m00s accounted from 2026-01-01T00:00:00Z to 2026-01-01T00:10:00Z' ]]
	diff <(cells <<<"$output") - <<-'END'
		NAMESPACE HELD HOURS GPU HOURS USED GPU HOURS USED COST CURRENCY
		=cmd() 0.03 0.00 0.00 0.0% 0.012142857 USD
		team-a 0.17 0.04 0.02 40.0% 0.1275 USD
		team-b 0.08 0.08 - - 0.2550 USD
		(idle) - 0.54 - - 1.645357143 USD
		total 0.28 0.67 >=0.02 >=2.5% 2.0400 USD
	END
}

@test "every grouping has the same total: the price of the node" {
	local by
	make_ledger
	for by in namespace pod container gpu mode; do
		run -0 january --by "$by" --output json
		jq -e '.totals == [.totals[0]] and .totals[0].costNano == 2040000000 and .nodes[0].costNano == 2040000000 and
			([.rows[].costNano] | add) == 2040000000 and .by == "'"$by"'"' <<<"$output"
	done
	run -0 january --by gpu
	grep -E '^GPU-0 \(idle\) ' <<<"$output"
}

@test "the range has whole buckets, and names them" {
	make_ledger
	run -0 "$GPUSLICE" cost --from 2026-01-01T00:06:00Z --to 2026-01-01T00:07:00Z -o json
	jq -e '.nodes[0].from == "2026-01-01T00:05:00Z" and .totals[0].cost == "1.02"' <<<"$output"
	run -0 "$GPUSLICE" cost
	[[ $output == *'Nothing was accounted in that time.'* ]]
}

@test "CSV is FOCUS: rows of a bucket sum to the node's charge, and no cell is a formula" {
	make_ledger
	january --output csv --provider AWS --billing-account 42 >"$NODE_DIR/cost.csv"
	python3 - "$NODE_DIR/cost.csv" <<-'END'
		import csv, decimal, json, sys
		rows = list(csv.DictReader(open(sys.argv[1], newline="")))
		assert len(rows) == 8, len(rows)
		for column in "BilledCost", "EffectiveCost", "ListCost", "ContractedCost":
		    assert sum(decimal.Decimal(r[column]) for r in rows) == decimal.Decimal("2.04"), column
		for start in {r["ChargePeriodStart"] for r in rows}:
		    bucket = [r for r in rows if r["ChargePeriodStart"] == start]
		    assert sum(decimal.Decimal(r["PricingQuantity"]) for r in bucket) == decimal.Decimal("0.083333333")
		    assert sum(json.loads(r["AllocatedMethodDetails"], parse_float=decimal.Decimal)["Elements"][0]
		               ["AllocatedRatio"] for r in bucket) == 1
		    assert bucket[-1]["AllocatedResourceName"] == "unused capacity"
		for r in rows:
		    assert r["AllocatedMethodId"] == "gpuslice-gpu-time-v1" and r["ChargeCategory"] == "Usage"
		    assert r["ServiceProviderName"] == "AWS" and r["BillingAccountId"] == "42"
		    assert not any(v[:1] in "=+-@" for v in r.values() if v), r
		    assert None not in r and None not in r.values()
		assert rows[0]["AllocatedResourceName"] == "'=cmd()/x/main"
		assert json.loads(rows[0]["AllocatedTags"])["namespace"] == "=cmd()"
	END
}

@test "the user's price replaces that of the usage records" {
	make_ledger
	run -0 january --price 2.9EUR -o json
	jq -e '.totals[0].cost == "0.483333332" and .totals[0].currency == "EUR" and .nodes[0].priceSource == "--price"' <<<"$output"
	run -2 january --price free
	[[ $output == *"--price: expected a price per hour from 0 to 1000000, such as 3.06 or 2.9EUR, found 'free'"* ]]
}

@test "missing or invalid input is reported, with advice" {
	run -3 january
	[[ $output == "gpuslice cost: there is no ledger '$LEDGER'; the agent of each node keeps one"*'--prometheus URL' ]]
	[[ ! -e $LEDGER ]]
	run -2 january --by shoe
	[[ $output == *"--by: expected namespace, pod, container, gpu or mode, found 'shoe'" ]]
	run -2 "$GPUSLICE" cost --from now --to 24h
	[[ $output == *"--from 'now' is not before --to '24h'" ]]
	run -2 "$GPUSLICE" cost --from yesterday
	[[ $output == *"--from: expected a time such as 24h"* ]]
	echo 'this is no database, but it is long enough to be looked at' >"$LEDGER"
	run -2 january
	[[ $output == *"read ledger '$LEDGER': expected the usage records of gpusliced (ledger.db in its state directory), found a file of another kind"* ]]
	run -2 january --ledger "$LEDGER" --prometheus http://localhost:1
	[[ $output == *'--ledger and --prometheus: expected one of them' ]]
}

start_prometheus() {
	P=$BATS_TEST_TMPDIR/prometheus
	mkdir -p "$P"
	start prometheus python3 "$BATS_TEST_DIRNAME/fake-prometheus.py" "$P"
	eventually 10 test -e "$P/port"
	URL=http://127.0.0.1:$(<"$P/port")
}

# vector METRIC LABELS VALUE [LABELS VALUE]...
vector() {
	local metric=$1 all=''
	shift
	while [[ $# -gt 0 ]]; do
		all+="${all:+,}{\"metric\":$1,\"value\":[1767229200,\"$2\"]}"
		shift 2
	done
	echo "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[$all]}}" >"$P/$metric.json"
}

@test "a Prometheus server is asked for the increase of each counter, with a token" {
	start_prometheus
	vector gpuslice_container_gpu_held_seconds_total '{"namespace":"team","pod":"a","node":"n1"}' 3600 '{"namespace":"team","pod":"b","node":"n2"}' 1800
	vector gpuslice_container_gpu_seconds_total '{"namespace":"team","pod":"a","node":"n1"}' 900 '{"namespace":"team","pod":"b","node":"n2"}' 1800
	vector gpuslice_container_gpu_busy_seconds_total '{"namespace":"team","pod":"a","node":"n1"}' 450
	vector gpuslice_container_gpu_cost_total '{"namespace":"team","pod":"a","node":"n1"}' 0.765 '{"namespace":"team","pod":"b","node":"n2"}' 1.53
	vector gpuslice_gpu_idle_cost_total '{"UUID":"GPU-0","node":"n1","currency":"USD"}' 2.295
	vector gpuslice_gpu_idle_seconds_total '{"UUID":"GPU-0","node":"n1"}' 2700
	echo s3cret >"$P/token"
	run -0 january --by pod --prometheus "$URL/prefix/" --bearer-token-file "$P/token"
	[[ ${lines[0]} == *', as Prometheus estimates it' ]]
	diff <(cells <<<"$output") - <<-'END'
		NAMESPACE POD HELD HOURS GPU HOURS USED GPU HOURS USED COST CURRENCY
		team a 1.00 0.25 0.13 50.0% 0.7650 USD
		team b 0.50 0.50 - - 1.5300 USD
		(idle) - 0.75 - - 2.2950 USD
		total 1.50 1.50 >=0.13 >=8.3% 4.5900 USD
	END
	run -0 january --by pod --prometheus "$URL" -o json
	jq -e '[.rows[] | .memoryPeakBytes, .memoryByteSeconds | select(. != null)] == []' <<<"$output"
	# Without the GPU hours of what is idle nobody knows the sum.
	rm "$P/gpuslice_gpu_idle_seconds_total.json" "$P/queries"
	run -0 january --by pod --prometheus "$URL/prefix/" --bearer-token-file "$P/token"
	[[ $(cells <<<"$output" | tail -n 1) == "total 1.50 - >=0.13 - 4.5900 USD" ]]
	jq -se 'length == 6 and all(.path == "/prefix/api/v1/query" and .time == "1767312000" and
		.authorization == "Bearer s3cret" and (.query | test("\\[86400s\\]")))' "$P/queries"
	january --prometheus "$URL" -o csv >"$NODE_DIR/cost.csv"
	python3 -c 'import csv,sys; assert [r["BilledCost"] for r in csv.DictReader(open(sys.argv[1]))] == ["0.765", "2.295", "1.53"]' "$NODE_DIR/cost.csv"
}

@test "a Prometheus server that misbehaves costs a message, without secrets" {
	start_prometheus
	local secret=${URL/\/\////user:pa55@}
	echo 'status 401' >"$P/mode"
	run -7 january --prometheus "$secret"
	[[ $output == *"'$URL/api/v1/query' answered with status 401: it wants another token, see --bearer-token-file" ]]
	[[ $output != *pa55* ]]
	echo 'status 400' >"$P/mode"
	run -2 january --prometheus "$secret"
	[[ $output == *'an error: as it was told' ]]
	echo redirect >"$P/mode"
	run -9 january --prometheus "$URL"
	[[ $output == *'answered with status 302' ]]
	echo html >"$P/mode"
	run -2 january --prometheus "$URL"
	[[ $output == *'expected JSON; is this a Prometheus server?'* ]]
	echo silent >"$P/mode"
	run -8 january --prometheus "$URL" --timeout 300ms
	[[ $output == *'did not answer in time' ]]
	echo endless >"$P/mode"
	run -5 january --prometheus "$URL"
	[[ $output == *'is larger than 67108864 bytes' ]]
	stop prometheus
	run -9 january --prometheus "$secret"
	[[ $output == *"ask '$URL/api/v1/query': "* && $output != *pa55* ]]
	run -2 january --prometheus 'not a url'
	[[ $output == *'--prometheus: expected a URL such as http://prometheus:9090' ]]
	printf 'two words' >"$P/token"
	run -2 january --prometheus "$URL" --bearer-token-file "$P/token"
	[[ $output == *'--bearer-token-file: expected one line without blanks'* && $output != *words* ]]
	run -2 january --prometheus "$URL" --price 3
	[[ $output == *'--price is for the ledger of one node'* ]]
}
