/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What each process used of each GPU by the time it left: the reference for tests of measured figures. One JSON
 * object a line:
 *
 *	pid, name, gpu    the process, by the PID in this process's namespace, and the GPU's index
 *	busyNs            time for which its kernels ran, by the simulated clock
 *	byteSeconds       its memory, summed over real time
 *	peakBytes
 *	gpuBusyNs         time for which the GPU (or the simulated MIG device) ever ran kernels
 */
#include "testbed/sim/device/internal.h"

#include "lib/base/time.h"

#include <stdio.h>

void account_shown(struct device_client *c, uint32_t slot)
{
	struct share *s = &c->shares[slot];
	uint64_t now_ns = time_mono_ns();

	s->byte_s += (double)s->shown_bytes * (double)(now_ns - s->shown_ns) / 1e9;
	s->shown_ns = now_ns;
	s->shown_bytes = s->bytes;
	if (s->bytes > s->peak_bytes)
		s->peak_bytes = s->bytes;
}

void account_end(struct device_client *c, uint32_t slot)
{
	struct share *s = &c->shares[slot];
	char name[COMM_MAX + 1];
	size_t i;

	account_shown(c, slot);
	for (i = 0; c->name[i]; i++)
		name[i] = c->name[i] >= ' ' && c->name[i] != '"' && c->name[i] != '\\'
				  ? c->name[i]
				  : '?';
	name[i] = '\0';
	if (c->device->account_fd >= 0)
		(void)dprintf(c->device->account_fd,
			"{\"pid\":%u,\"name\":\"%s\",\"gpu\":%u,\"busyNs\":%llu,"
			"\"byteSeconds\":%.0f,\"peakBytes\":%llu,\"gpuBusyNs\":%llu}\n",
			c->pid, name, slot,
			(unsigned long long)(usage_busy_ns(c, slot) - s->reported_busy_ns),
			s->byte_s, (unsigned long long)s->peak_bytes,
			(unsigned long long)engine_gpu_counters(c->device->engine,
				instance_index(c, slot))
				.busy_ns);
	/* The client may come back to the GPU. */
	s->reported_busy_ns = usage_busy_ns(c, slot);
	s->byte_s = 0;
	s->peak_bytes = 0;
}
