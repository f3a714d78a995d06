/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "io/kubelet/messages/messages.h"
#include "io/kubelet/pod-resources.h"

#define BYTES(b) (const uint8_t *)buf_str(b), (b)->len

static const struct pod_entry entries[] = {
	{ "team-a", "train-0", "main", "nvidia.com/gpu", "GPU-0::0", 0, false },
	{ "team-a", "train-0", "main", "nvidia.com/gpu", "GPU-0::1", 0, false },
	{ "team-a", "train-0", "main", "nvidia.com/gpu", "GPU-1::0", 1, false },
	{ "team-a", "train-0", "main", "nvidia.com/mig-1g.5gb", "MIG-7", -1, false },
	/* of a claim, by the driver's name for it and by its UUID */
	{ "team-a", "train-0", "main", "gpu.nvidia.com", "gpu-0", -1, true },
	{ "team-a", "train-0", "main", "gpu.nvidia.com", "gpu-1", -1, true },
	/* its container is listed twice */
	{ "team-a", "train-0", "main", "nvidia.com/gpu", "GPU-4::0", 0, false },
	{ "team-a", "train-0", "sidecar", "nvidia.com/gpu", "GPU-2::0", 0, false },
	{ "team-a", "idle", "main", NULL, NULL, -1, false },
	{ "team-b", "train-0", "main", "nvidia.com/gpu", "GPU-3::0", 0, false },
};

static void pod_list__round_trip(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(pod_entries_fini) struct pod_entries back = { 0 };
	struct error err = ERROR_INIT;
	size_t i, j = 0;

	(void)state;
	assert_ok(pod_list_encode(&b, entries, ARRAY_LEN(entries), &err), &err);
	assert_ok(pod_list_decode(&back, BYTES(&b), &err), &err);
	assert_int_equal(back.n, ARRAY_LEN(entries) - 1);
	for (i = 0; i < ARRAY_LEN(entries); i++) {
		if (!entries[i].id)
			continue;
		assert_string_equal(back.v[j].namespace_, entries[i].namespace_);
		assert_string_equal(back.v[j].pod, entries[i].pod);
		assert_string_equal(back.v[j].container, entries[i].container);
		assert_string_equal(back.v[j].resource, entries[i].resource);
		assert_string_equal(back.v[j].id, entries[i].id);
		assert_int_equal(back.v[j].numa_node, entries[i].numa_node);
		assert_int_equal(back.v[j].dynamic, entries[i].dynamic);
		j++;
	}
}

/* A claim whose CDI device is named by the UUID. */
static void pod_list__names_a_claimed_device_by_its_uuid(void **state)
{
	static const uint8_t bytes[] = { 0x0a, 0x49, 0x0a, 0x01, 0x70, 0x12, 0x01, 0x6e, 0x1a,
		0x41, 0x0a, 0x01, 0x63, 0x2a, 0x3c, 0x12, 0x01, 0x78, 0x22, 0x37, 0x0a, 0x1e,
		0x0a, 0x1c, 0x6b, 0x38, 0x73, 0x2e, 0x67, 0x70, 0x75, 0x2e, 0x6e, 0x76, 0x69,
		0x64, 0x69, 0x61, 0x2e, 0x63, 0x6f, 0x6d, 0x2f, 0x67, 0x70, 0x75, 0x3d, 0x47,
		0x50, 0x55, 0x2d, 0x31, 0x12, 0x0e, 0x67, 0x70, 0x75, 0x2e, 0x6e, 0x76, 0x69,
		0x64, 0x69, 0x61, 0x2e, 0x63, 0x6f, 0x6d, 0x22, 0x05, 0x67, 0x70, 0x75, 0x2d,
		0x33 };
	CLEANUP(pod_entries_fini) struct pod_entries back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(pod_list_decode(&back, bytes, sizeof(bytes), &err), &err);
	assert_int_equal(back.n, 1);
	assert_string_equal(back.v[0].resource, "gpu.nvidia.com");
	assert_string_equal(back.v[0].id, "GPU-1");
	assert_true(back.v[0].dynamic);
}

/* The bytes that Go writes: two IDs in one ContainerDevices. */
static void pod_list__has_the_known_bytes(void **state)
{
	static const uint8_t want[] = { 0x0a, 0x19, 0x0a, 0x01, 'p', 0x12, 0x01, 'n', 0x1a,
		0x11, 0x0a, 0x01, 'c', 0x12, 0x0c, 0x0a, 0x02, 'r', '/', 0x12, 0x02, 'i', '1',
		0x12, 0x02, 'i', '2' };
	static const struct pod_entry v[] = {
		{ "n", "p", "c", "r/", "i1", -1, false },
		{ "n", "p", "c", "r/", "i2", -1, false },
	};
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(pod_list_encode(&b, v, 2, &err), &err);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
}

static void pod_allocatable__round_trip(void **state)
{
	static const struct pod_entry v[] = {
		{ .resource = "nvidia.com/gpu", .id = "GPU-0", .numa_node = 1 },
		{ .resource = "nvidia.com/gpu", .id = "GPU-1", .numa_node = -1 },
	};
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(pod_entries_fini) struct pod_entries back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(pod_allocatable_encode(&b, v, 2, &err), &err);
	assert_ok(pod_allocatable_decode(&back, BYTES(&b), &err), &err);
	assert_int_equal(back.n, 2);
	assert_string_equal(back.v[1].id, "GPU-1");
	assert_string_equal(back.v[1].pod, "");
	assert_int_equal(back.v[0].numa_node, 1);
	assert_int_equal(back.v[1].numa_node, -1);
}

static void pod_devices_decode__ignores_newer_fields(void **state)
{
	/* A pod "p" with field 5 (memory, from 1.37) and an unknown field 99. */
	static const uint8_t bytes[] = { 0x0a, 0x0c, 0x0a, 0x01, 'p', 0x2a, 0x02, 0x10, 0x05,
		0x9a, 0x06, 0x02, 'x', 'y' };
	CLEANUP(pod_devices_freep) struct pod_devices *list = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(pod_devices_decode(&list, bytes, sizeof(bytes), &err), &err);
	assert_int_equal(list->n, 0);
}

static void pod_devices_decode__refuses_malformed_input(void **state)
{
	struct pod_devices *list = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(pod_devices_decode(&list, (const uint8_t *)"\x0a\x7f", 2, &err), &err,
		"malformed");
	assert_null(list);
	assert_ok(pod_devices_decode(&list, NULL, 0, &err), &err); /* no pods */
	assert_int_equal(list->n, 0);
	list = pod_devices_free(list);
}

/* --- the client --- */

static unsigned n_requests, n_answers;
static struct pod_devices *answer;
static struct error answer_err;

static void handle_list(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)data;
	(void)arg;
	assert_int_equal(len, 0);
	if (++n_requests == 2) {
		rpc_reply_error(call, RPC_RESOURCE_EXHAUSTED, "rejected by rate limit");
		return;
	}
	assert_ok(pod_list_encode(&b, entries, ARRAY_LEN(entries), &err), &err);
	rpc_reply(call, buf_str(&b), b.len);
}

static void on_pod_list(void *arg, struct pod_devices *list, const struct error *err)
{
	(void)arg;
	n_answers++;
	answer = list;
	error_clear(&answer_err);
	if (err)
		answer_err = *err;
}

static void request_pod_list(uv_loop_t *loop, struct rpc_client *c)
{
	unsigned before = n_answers;
	struct error err = ERROR_INIT;

	assert_ok(pod_resources_list(c, 5 * NS_PER_SEC, on_pod_list, NULL, &err), &err);
	while (n_answers == before)
		(void)uv_run(loop, UV_RUN_ONCE);
}

static void pod_resources_list__sends_a_request_to_the_kubelet(void **state)
{
	static const struct rpc_method methods[] = {
		{ .path = METHOD_POD_LIST, .handle = handle_list },
	};
	struct error err = ERROR_INIT;
	struct rpc_server *server = NULL;
	struct rpc_client *c = NULL;
	struct rpc *rpc = NULL;
	char *dir = test_tmpdir(), path[108];
	uv_loop_t loop;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_ok(rpc_new(&rpc, &loop, &err), &err);
	assert_ok(path_join(path, sizeof(path), dir, "kubelet.sock", &err), &err);
	assert_ok(rpc_dial(rpc, path, &c, &err), &err);

	request_pod_list(&loop, c); /* no kubelet yet */
	assert_null(answer);
	assert_int_equal(answer_err.code, ERR_UNAVAILABLE);
	assert_ok(rpc_serve(rpc, path, methods, 1, NULL, &server, &err), &err);
	request_pod_list(&loop, c);
	assert_non_null(answer);
	assert_int_equal(answer->n, ARRAY_LEN(entries) - 1);
	assert_string_equal(answer->v[0].id, "GPU-0::0");
	assert_string_equal(answer->v[8].namespace_, "team-b");
	answer = pod_devices_free(answer);
	request_pod_list(&loop, c);
	assert_null(answer);
	assert_int_equal(answer_err.code, ERR_LIMIT); /* ask later */
	assert_non_null(strstr(answer_err.msg, "rejected by rate limit"));
	rpc_server_close(server);
	request_pod_list(&loop, c);
	assert_int_equal(answer_err.code, ERR_UNAVAILABLE);
	assert_null(rpc_free(rpc));
	assert_int_equal(uv_loop_close(&loop), 0);
	test_rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pod_list__round_trip),
		cmocka_unit_test(pod_list__names_a_claimed_device_by_its_uuid),
		cmocka_unit_test(pod_list__has_the_known_bytes),
		cmocka_unit_test(pod_allocatable__round_trip),
		cmocka_unit_test(pod_devices_decode__ignores_newer_fields),
		cmocka_unit_test(pod_devices_decode__refuses_malformed_input),
		cmocka_unit_test(pod_resources_list__sends_a_request_to_the_kubelet),
	};

	return cmocka_run_group_tests_name("pod-resources", tests, NULL, NULL);
}
