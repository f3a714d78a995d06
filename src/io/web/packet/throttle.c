/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/packet/throttle.h"

void web_throttle_init(struct web_throttle *p, unsigned permille, uint64_t wall_ns,
	uint64_t cpu_ns)
{
	*p = (struct web_throttle){ .permille = permille,
		.started_ns = wall_ns,
		.cpu_ns = cpu_ns,
		.credit_ns = (int64_t)WEB_THROTTLE_BURST_NS };
}

uint64_t web_throttle_get_pause_ns(struct web_throttle *p, uint64_t wall_ns, uint64_t cpu_ns)
{
	/* Divides first, against overflow: the thread may have slept for years. */
	uint64_t passed_us = (wall_ns - p->started_ns) / 1000;
	uint64_t earned = passed_us * p->permille;
	uint64_t spent = cpu_ns - p->cpu_ns;

	if (earned > 2 * WEB_THROTTLE_BURST_NS)
		earned = 2 * WEB_THROTTLE_BURST_NS;
	p->started_ns += passed_us * 1000;
	p->cpu_ns = cpu_ns;
	p->credit_ns += (int64_t)earned - (int64_t)spent;
	if (p->credit_ns > (int64_t)WEB_THROTTLE_BURST_NS)
		p->credit_ns = (int64_t)WEB_THROTTLE_BURST_NS;
	if (p->credit_ns >= 0 || p->permille == 0)
		return 0;
	return (uint64_t)-p->credit_ns / p->permille * 1000;
}

int web_spin_wait_ms(unsigned rounds)
{
	if (rounds < WEB_SPIN_FREE)
		return 0;
	rounds -= WEB_SPIN_FREE;
	return rounds < WEB_SPIN_MAX_MS ? (int)rounds + 1 : WEB_SPIN_MAX_MS;
}
