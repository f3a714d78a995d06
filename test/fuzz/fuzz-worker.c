/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/plausible.h"
#include "io/nvml/monitor/sampling.h"
#include "io/nvml/proto.h"

#include <string.h>

/*
 * What the NVML worker may send after a broken library has overwritten its memory. The input is a row of records:
 * a byte with the type of the message, two bytes of length, the body. Type 0 is a whole packet with its head. Bit
 * 7 marks the answer to the present probe. Type 1 starts another probe, WORKER_SAMPLE another sample.
 */

#define NOW_NS UINT64_C(3600000000000)

/* An accepted message is in order and plausible. */
static void on_sample(void *arg, struct sample *s, const struct error *err)
{
	(void)arg;
	(void)err;
	for (uint32_t i = 0; s && i < s->n; i++) {
		const struct sample_device *device = &s->devices[i];
		uint64_t sum = 0;

		if (!device->uuid[0] || (i > 0 && device->gpu < device[-1].gpu) ||
			device->at_ns > NOW_NS || device->busy_ns > device->interval_ns ||
			device->memory_used > device->memory_total ||
			device->n_processes > SAMPLING_PROCESSES_MAX)
			__builtin_trap();
		for (uint32_t k = 0; k < device->n_values; k++)
			if (!plausible_value(&device->values[k]))
				__builtin_trap();
		for (uint32_t k = 0; k < device->n_texts; k++)
			if (strlen(device->texts[k].text) >= SAMPLE_TEXT_MAX)
				__builtin_trap();
		for (uint32_t k = 0; k < device->n_processes; k++)
			sum += device->processes[k].busy_ns;
		if (sum > (device->busy_known ? device->busy_ns : device->interval_ns))
			__builtin_trap();
	}
	sample_free(s);
}

static void feed_sample(struct sampling *s, const union worker_msg *m,
	const struct inventory *inv)
{
	if (m->head.type == WORKER_SAMPLE) {
		if (sampling_begin(s, NULL) == 0)
			s->done = on_sample;
	} else if (m->head.type == WORKER_SAMPLE_END) {
		sampling_end(s, &m->sample_end, NOW_NS, inv);
	} else if (sampling_apply(s, m, NOW_NS, NULL) < 0) {
		sampling_fail(s, NULL);
	}
}

static void check_probe_round(const struct probe_round *round)
{
	for (uint32_t i = 0; round->last && i < round->last->n; i++) {
		if (round->last->gpus[i].index != i ||
			(round->last->gpus[i].fault == GPU_OK && !round->last->gpus[i].uuid[0]))
			__builtin_trap();
	}
	for (uint32_t i = 0; round->last && i < round->last->n_mig; i++) {
		const struct gpu_mig *d = &round->last->mig[i];

		if (d->gpu >= round->last->n || !round->last->gpus[d->gpu].mig_enabled ||
			(i > 0 && d->gpu < d[-1].gpu) || (!d->uuid[0] && !d->reason[0]))
			__builtin_trap();
	}
	(void)probe_round_needs_session(round);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct probe_round round;
	struct sampling sampling = { .seq = 0 };
	struct worker_probe probe;
	uint64_t now = 0;

	memset(&round, 0, sizeof round);
	probe_round_start(&round, now, &probe);
	while (size >= 3) {
		union worker_msg m;
		unsigned type = data[0] & 0x7f, current = data[0] & 0x80;
		size_t len = data[1] | (size_t)data[2] << 8, room = sizeof m - sizeof m.head;

		data += 3;
		size -= 3;
		len = len < size ? len : size;
		memset(&m, 0, sizeof m);
		if (type == 0) {
			memcpy(&m, data, len < sizeof m ? len : sizeof m);
		} else {
			memcpy((char *)&m + sizeof m.head, data, len < room ? len : room);
			worker_head(&m.head,
				type < WORKER_TYPE_COUNT_ ? type : WORKER_PROBE_HINT);
			m.begin.seq = current ? round.seq : m.begin.seq;
			if (current && m.head.type >= WORKER_SAMPLE)
				m.device.seq = sampling.seq;
		}
		data += len;
		size -= len;
		if (worker_msg_check(&m, type == 0 ? len : m.head.len, NULL) < 0)
			continue;
		if (m.head.type >= WORKER_SAMPLE)
			feed_sample(&sampling, &m, round.last);
		else if (type == WORKER_PROBE)
			probe_round_start(&round, ++now, &probe);
		else if (probe_round_feed(&round, &m, NULL) < 0 && len > 0)
			probe_round_mark_stuck(&round, data[-1], now + 2, "fuzz");
		check_probe_round(&round);
		(void)probe_round_retry_at(&round);
	}
	sampling_fini(&sampling);
	probe_round_fini(&round);
	return 0;
}
