/* SPDX-License-Identifier: Apache-2.0 */
#include "grants-client.h"

const uint8_t uuids[2][SLICE_UUID_BYTES] = { "0123456789abcde", "fedcba987654321" };

struct grants_slice *slice_new(struct grants_table *table, const char *id, uint64_t limit)
{
	const uint64_t limits[2] = { limit, limit };
	struct grants_slice *s = grants_slice_new(table, id, 2, uuids, limits);

	assert_non_null(s);
	return s;
}

enum slice_status join(struct grants_table *table, struct grants_slice *s,
	struct grants_test_client *c, uint32_t pid)
{
	static uint64_t last;
	const uint64_t serial = ++last;
	const struct grants_client who = { .pid = pid,
		.ns_pid = 7,
		.start = 100,
		.serial = serial,
		.name = "tester" };
	enum slice_status r;

	memset(c, 0, sizeof(*c));
	r = grants_register(table, s, &who, &c->rec, &c->page, &c->m);
	c->alive = r == SLICE_OK;
	return r;
}

uint64_t credit(const struct grants_test_client *c, unsigned int gpu)
{
	return atomic_load(&c->page.gpus[gpu].credit);
}

bool allocate_from_credit(struct grants_test_client *c, unsigned int gpu, uint64_t bytes,
	bool hidden)
{
	struct slice_gpu_page *p = &c->page.gpus[gpu];

	atomic_fetch_add(&p->begun, 1);
	if (atomic_load(&p->credit) >= bytes) {
		atomic_fetch_sub(&p->credit, bytes);
	} else if (grants_request(c->m, gpu, bytes, 1, NULL) != SLICE_OK) {
		atomic_fetch_add(&p->done, 1);
		return false;
	}
	c->has[gpu] += bytes;
	if (!hidden)
		atomic_fetch_add(&p->seen, bytes);
	atomic_fetch_add(&p->done, 1);
	return true;
}

void free_to_credit(struct grants_test_client *c, unsigned int gpu, uint64_t bytes)
{
	struct slice_gpu_page *p = &c->page.gpus[gpu];

	atomic_fetch_add(&p->begun, 1);
	atomic_fetch_sub(&p->seen, bytes);
	atomic_fetch_add(&p->credit, bytes);
	c->has[gpu] -= bytes;
	atomic_fetch_add(&p->done, 1);
}

void restart(struct grants_table *table, struct grants_slice **s, uint64_t limit,
	struct grants_test_client *c, size_t n)
{
	grants_fini(table);
	*s = slice_new(table, "a", limit);
	for (size_t i = 0; i < n; i++) {
		if (!c[i].alive)
			continue;
		assert_true(grants_record_is_valid(&c[i].rec));
		c[i].m = grants_restore(table, *s, &c[i].rec);
		assert_non_null(c[i].m);
	}
}
