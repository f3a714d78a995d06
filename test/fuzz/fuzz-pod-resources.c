/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "io/kubelet/messages/messages.h"
#include "io/kubelet/pod-resources.h"

/* Answers of the kubelet about pods. A decoded answer must encode and decode to the same. */
static void compare_entries(const struct pod_entries *e, const struct pod_devices *d)
{
	size_t i;

	if (e->n != d->n)
		abort();
	for (i = 0; i < e->n; i++)
		if (e->v[i].dynamic != d->v[i].dynamic ||
			strcmp(e->v[i].pod, d->v[i].pod) != 0 ||
			strcmp(e->v[i].id, d->v[i].id) != 0 ||
			strcmp(e->v[i].resource, d->v[i].resource) != 0 ||
			strcmp(e->v[i].container, d->v[i].container) != 0 ||
			strcmp(e->v[i].namespace_, d->v[i].namespace_) != 0)
			abort();
}

static void fuzz_list(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT(256U << 20);
	struct pod_devices *list = NULL;
	struct pod_entries e;
	struct error err = ERROR_INIT;
	int result = pod_list_decode(&e, data, size, &err);

	if ((result < 0) != (err.code != ERR_NONE))
		abort();
	if (result < 0)
		return;
	if (pod_list_encode(&b, e.v, e.n, &err) < 0 ||
		pod_devices_decode(&list, (const uint8_t *)buf_str(&b), b.len, &err) < 0)
		abort();
	compare_entries(&e, list);
	list = pod_devices_free(list);
	pod_entries_fini(&e);
	buf_fini(&b);
}

static void fuzz_allocatable(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT(256U << 20);
	struct pod_entries e, again;
	struct error err = ERROR_INIT;
	int result = pod_allocatable_decode(&e, data, size, &err);

	if ((result < 0) != (err.code != ERR_NONE))
		abort();
	if (result < 0)
		return;
	if (pod_allocatable_encode(&b, e.v, e.n, &err) < 0 ||
		pod_allocatable_decode(&again, (const uint8_t *)buf_str(&b), b.len, &err) < 0 ||
		again.n != e.n)
		abort();
	pod_entries_fini(&e);
	pod_entries_fini(&again);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0 && (data[0] & 1))
		fuzz_allocatable(data + 1, size - 1);
	else if (size > 0)
		fuzz_list(data + 1, size - 1);
	return 0;
}
