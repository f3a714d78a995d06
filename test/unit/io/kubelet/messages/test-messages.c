/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "io/kubelet/messages/codec.h"
#include "io/kubelet/messages/messages.h"

#define BYTES(b) (const uint8_t *)buf_str(b), (b)->len

/* The wire format is that of Go's protobuf: these are its bytes. */
static void register_request__has_the_known_bytes(void **state)
{
	static const char want[] =
		"\x0a\x07v1beta1\x12\x0fnvidia-gpu.sock\x1a\x0envidia.com/gpu"
		"\x22\x02\x10\x01";
	const struct register_request r = {
		.version = "v1beta1",
		.endpoint = "nvidia-gpu.sock",
		.resource_name = "nvidia.com/gpu",
		.options.preferred_allocation = true,
	};
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct register_request back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(register_request_encode(&b, &r, &err), &err);
	assert_int_equal(b.len, sizeof(want) - 1);
	assert_memory_equal(b.data, want, b.len);
	assert_ok(register_request_decode(&back, BYTES(&b), &err), &err);
	assert_string_equal(back.version, "v1beta1");
	assert_string_equal(back.endpoint, "nvidia-gpu.sock");
	assert_string_equal(back.resource_name, "nvidia.com/gpu");
	assert_true(back.options.preferred_allocation);
	assert_false(back.options.pre_start_required);
	register_request_fini(&back);
}

static void plugin_devices__have_the_known_bytes(void **state)
{
	static const char want[] =
		"\x0a\x16\x0a\x05GPU-0\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01"
		"\x0a\x12\x0a\x05GPU-1\x12\x09Unhealthy";
	static const struct plugin_device v[] = {
		{ .id = "GPU-0", .healthy = true, .numa_node = 1 },
		{ .id = "GPU-1", .healthy = false, .numa_node = -1 },
	};
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(plugin_devices_fini) struct plugin_devices back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(plugin_devices_encode(&b, v, 2, &err), &err);
	assert_int_equal(b.len, sizeof(want) - 1);
	assert_memory_equal(b.data, want, b.len);
	assert_ok(plugin_devices_decode(&back, BYTES(&b), &err), &err);
	assert_int_equal(back.n, 2);
	assert_string_equal(back.v[0].id, "GPU-0");
	assert_true(back.v[0].healthy);
	assert_int_equal(back.v[0].numa_node, 1);
	assert_false(back.v[1].healthy);
	assert_int_equal(back.v[1].numa_node, -1);
}

/* NUMA node 0 is a node, and encodes as an empty message. */
static void plugin_devices__keep_node_zero(void **state)
{
	static const struct plugin_device v = { .id = "x", .healthy = true, .numa_node = 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(plugin_devices_fini) struct plugin_devices back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(plugin_devices_encode(&b, &v, 1, &err), &err);
	assert_ok(plugin_devices_decode(&back, BYTES(&b), &err), &err);
	assert_int_equal(back.v[0].numa_node, 0);
}

static void allocate_response__round_trip(void **state)
{
	struct alloc_env envs[] = { { (char[]){ "A" }, (char[]){ "1" } },
		{ (char[]){ "B" }, (char[]){ "" } } };
	struct alloc_mount mounts[] = { { (char[]){ "/c" }, (char[]){ "/h" }, true } };
	struct alloc_device devices[] = { { (char[]){ "/dev/c" }, (char[]){ "/dev/h" },
		"rwm" } };
	const struct allocation a = { envs, 2, mounts, 1, devices, 1, NULL, 0, STRV_INIT },
				none = { 0 };
	const struct allocation *const all[] = { &a, &none };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(allocate_response_fini) struct allocate_response back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(allocate_response_encode(&b, all, 2, &err), &err);
	assert_ok(allocate_response_decode(&back, BYTES(&b), &err), &err);
	assert_int_equal(back.n, 2);
	assert_int_equal(back.v[0].n_envs, 2);
	assert_string_equal(back.v[0].envs[0].name, "A");
	assert_string_equal(back.v[0].envs[0].value, "1");
	assert_string_equal(back.v[0].envs[1].value, "");
	assert_string_equal(back.v[0].mounts[0].container_path, "/c");
	assert_string_equal(back.v[0].mounts[0].host_path, "/h");
	assert_true(back.v[0].mounts[0].read_only);
	assert_string_equal(back.v[0].devices[0].container_path, "/dev/c");
	assert_string_equal(back.v[0].devices[0].host_path, "/dev/h");
	assert_string_equal(back.v[0].devices[0].permissions, "rwm");
	assert_int_equal(back.v[1].n_envs, 0);
}

/* Fields 4 and 5, as the kubelet reads them. */
static void allocate_response__carries_cdi(void **state)
{
	static const char want[] = "\x0a\x13\x22\x08\x0a\x03k/x\x12\x01v\x2a\x07\x0a\x05v/c=d";
	struct alloc_env annotation = { (char[]){ "k/x" }, (char[]){ "v" } };
	char name[] = "v/c=d", *names[] = { name };
	const struct allocation a = { .annotations = &annotation,
		.n_annotations = 1,
		.cdi_devices = { .v = names, .n = 1 } };
	const struct allocation *const all[] = { &a };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(allocate_response_fini) struct allocate_response back = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(allocate_response_encode(&b, all, 1, &err), &err);
	assert_int_equal(b.len, sizeof(want) - 1);
	assert_memory_equal(b.data, want, b.len);
	assert_ok(allocate_response_decode(&back, BYTES(&b), &err), &err);
	assert_int_equal(back.v[0].n_annotations, 1);
	assert_string_equal(back.v[0].annotations[0].name, "k/x");
	assert_string_equal(back.v[0].annotations[0].value, "v");
	assert_int_equal(back.v[0].cdi_devices.n, 1);
	assert_string_equal(back.v[0].cdi_devices.v[0], "v/c=d");
}

static void id_lists__round_trip(void **state)
{
	static const char *const ids[] = { "a", "b::1", "c" };
	const struct id_list in[] = { { ids, 3 }, { NULL, 0 }, { ids + 1, 1 } };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct id_lists out = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(allocate_request_encode(&b, in, 3, &err), &err);
	assert_ok(allocate_request_decode(&out, BYTES(&b), &err), &err);
	assert_int_equal(out.n, 3);
	assert_int_equal(out.v[0].n, 3);
	assert_string_equal(out.v[0].v[1], "b::1");
	assert_int_equal(out.v[1].n, 0);
	assert_string_equal(out.v[2].v[0], "b::1");
	id_lists_fini(&out);

	buf_clear(&b);
	assert_ok(prefer_response_encode(&b, in, 3, &err), &err);
	assert_ok(prefer_response_decode(&out, BYTES(&b), &err), &err);
	assert_int_equal(out.n, 3);
	assert_string_equal(out.v[0].v[2], "c");
	id_lists_fini(&out);

	buf_clear(&b);
	assert_ok(pre_start_request_encode(&b, &in[0], &err), &err);
	/* Field 1, once for each ID. */
	assert_int_equal(b.len, strlen("\n\1a\n\4b::1\n\1c"));
	assert_memory_equal(b.data, "\n\1a\n\4b::1\n\1c", b.len);
}

static void prefer_request__round_trip(void **state)
{
	static const char *const ids[] = { "a", "b", "c" };
	const struct prefer_request in = { .available = ids,
		.n_available = 3,
		.required = ids + 2,
		.n_required = 1,
		.size = 2 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(prefer_requests_fini) struct prefer_requests out = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(prefer_request_encode(&b, &in, 1, &err), &err);
	assert_ok(prefer_request_decode(&out, BYTES(&b), &err), &err);
	assert_int_equal(out.n, 1);
	assert_int_equal(out.v[0].n_available, 3);
	assert_int_equal(out.v[0].n_required, 1);
	assert_int_equal(out.v[0].size, 2);
	assert_string_equal(out.v[0].required[0], "c");
}

static void prefer_request__refuses_negative_size(void **state)
{
	/* allocation_size -1 as a varint of ten bytes */
	static const uint8_t bytes[] = { 0x0a, 0x0b, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0x01 };
	struct prefer_requests out;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(prefer_request_decode(&out, bytes, sizeof(bytes), &err), &err,
		"allocation size -1 is not between");
}

static void decode__refuses_malformed_input(void **state)
{
	static const uint8_t cut[] = { 0x0a, 0x05, 'a' }, bad_utf8[] = { 0x0a, 0x01, 0xff };
	struct register_request r;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(register_request_decode(&r, cut, sizeof(cut), &err), &err,
		"RegisterRequest of 3 bytes is malformed");
	assert_int_equal(err.code, ERR_INVALID);
	assert_error(register_request_decode(&r, bad_utf8, sizeof(bad_utf8), &err), &err,
		"field 'version' is not UTF-8");
}

static void decode__bounds_counts_and_memory(void **state)
{
	size_t n = 8U << 20, i;
	uint8_t *bytes = malloc(n);
	struct plugin_devices devices;
	struct id_lists lists;
	struct error err = ERROR_INIT;

	(void)state;
	assert_non_null(bytes);
	for (i = 0; i < n; i += 2) { /* empty messages, two bytes each */
		bytes[i] = 0x0a;
		bytes[i + 1] = 0;
	}
	assert_error(plugin_devices_decode(&devices, bytes, n, &err), &err, "bytes of memory");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_error(
		plugin_devices_decode(&devices, bytes, 2 * (MESSAGE_DEVICES_MAX + 1), &err),
		&err, "65537 devices; at most 65536");
	assert_ok(plugin_devices_decode(&devices, bytes, 2 * MESSAGE_DEVICES_MAX, &err), &err);
	plugin_devices_fini(&devices);
	assert_error(
		allocate_request_decode(&lists, bytes, 2 * (MESSAGE_CONTAINERS_MAX + 1), &err),
		&err, "1025 containers; at most 1024");
	free(bytes);
}

static void encode__keeps_to_the_limit_of_the_kubelet(void **state)
{
	enum { N = 40000 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	struct plugin_device *v = calloc(2 * N, sizeof(*v));
	struct error err = ERROR_INIT;
	size_t i;

	(void)state;
	assert_non_null(v);
	for (i = 0; i < 2 * N; i++)
		v[i] = (struct plugin_device){
			.id = "GPU-00000000-0000-0000-0000-000000000000::12345",
			.healthy = true,
			.numa_node = 1,
		};
	assert_ok(plugin_devices_encode(&b, v, N, &err), &err);
	assert_true(b.len < MESSAGE_TO_KUBELET_MAX);
	buf_clear(&b);
	assert_error(plugin_devices_encode(&b, v, 2 * N, &err), &err, "at most 4194304");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_true(buf_ok(&b)); /* nothing was begun */
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(register_request__has_the_known_bytes),
		cmocka_unit_test(plugin_devices__have_the_known_bytes),
		cmocka_unit_test(plugin_devices__keep_node_zero),
		cmocka_unit_test(allocate_response__round_trip),
		cmocka_unit_test(allocate_response__carries_cdi),
		cmocka_unit_test(id_lists__round_trip),
		cmocka_unit_test(prefer_request__round_trip),
		cmocka_unit_test(prefer_request__refuses_negative_size),
		cmocka_unit_test(decode__refuses_malformed_input),
		cmocka_unit_test(decode__bounds_counts_and_memory),
		cmocka_unit_test(encode__keeps_to_the_limit_of_the_kubelet),
	};

	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
