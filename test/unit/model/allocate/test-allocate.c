/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "lib/base/buf.h"
#include "model/allocate/allocate.h"

#define GPU  "nvidia.com/gpu"
#define ROOT "/var/run/nvidia-container-devices"

struct fixture {
	struct inventory *inv;
	struct config *config;
	struct offer *offer;
	struct alloc_host host;
	struct error err;
};

/* @n GPUs with indices 10, 11 ... and minors 20, 21 ..., shared if @replicas. */
static void setup(struct fixture *f, uint32_t n, uint32_t replicas)
{
	*f = (struct fixture){ .inv = fixture_inventory(n), .config = fixture_config() };
	for (uint32_t i = 0; i < n; i++) {
		f->inv->gpus[i].index = 10 + i;
		f->inv->gpus[i].minor = 20 + i;
	}
	if (replicas)
		fixture_share(f->config, GPU, NULL, replicas, NULL);
	f->offer = fixture_offer(f->inv, f->config);
}

static void teardown(struct fixture *f)
{
	strv_fini(&f->host.control_nodes);
	offer_free(f->offer);
	config_free(f->config);
	inventory_free(f->inv);
}

static int make_test_allocation(struct fixture *f, struct allocation **ret,
	const char *const *ids)
{
	size_t n = 0;

	while (ids[n])
		n++;
	return allocation_new(ret, &f->offer->resources[0], f->inv, f->config, &f->host, ids, n,
		&f->err);
}

/* "NAME=value ... | /container ... | /host:/container:rw ..." */
static void expect_allocation(int line, struct fixture *f, const char *const *ids,
	const char *expected)
{
	struct allocation *a = NULL;
	char text[2048] = "";
	size_t len = 0;

	assert_ok(make_test_allocation(f, &a, ids), &f->err);
	for (size_t i = 0; i < a->n_envs; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%s", i ? " " : "",
			a->envs[i].name, a->envs[i].value);
	len += (size_t)snprintf(text + len, sizeof(text) - len, " |");
	for (size_t i = 0; i < a->n_mounts; i++) {
		assert_string_equal(a->mounts[i].host_path, "/dev/null");
		assert_false(a->mounts[i].read_only);
		len += (size_t)snprintf(text + len, sizeof(text) - len, " %s",
			a->mounts[i].container_path);
	}
	len += (size_t)snprintf(text + len, sizeof(text) - len, " |");
	for (size_t i = 0; i < a->n_devices; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, " %s:%s:%s",
			a->devices[i].host_path, a->devices[i].container_path,
			a->devices[i].permissions);
	if (strcmp(text, expected) != 0)
		fail_msg("line %d: %s", line, text);
	allocation_free(a);
}

#define IDS(...)             ((const char *const[]){ __VA_ARGS__, NULL })
#define EXPECT(f, ids, text) expect_allocation(__LINE__, f, ids, text)

static void allocation_new__lists_devices(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 3, 0);
	EXPECT(&f, IDS("GPU-0"), "NVIDIA_VISIBLE_DEVICES=GPU-0 | |");
	EXPECT(&f, IDS("GPU-2", "GPU-0", "GPU-2"), "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-0 | |");
	f.config->device_id = DEVICE_ID_INDEX;
	EXPECT(&f, IDS("GPU-2", "GPU-0", "GPU-2"), "NVIDIA_VISIBLE_DEVICES=12,10 | |");
	/* health is not consulted */
	f.inv->gpus[0].fault = GPU_FAULT_LOST;
	EXPECT(&f, IDS("GPU-0"), "NVIDIA_VISIBLE_DEVICES=10 | |");
	EXPECT(&f, ((const char *const[]){ NULL }), "NVIDIA_VISIBLE_DEVICES= | |");
	teardown(&f);
	setup(&f, 2, 4);
	EXPECT(&f, IDS("GPU-1::3", "GPU-1::0", "GPU-0::2"),
		"NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0 | |");
	teardown(&f);
}

static void allocation_new__mounts_and_options(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 2, 2);
	f.config->device_lists = DEVICE_LIST_VOLUME_MOUNTS;
	EXPECT(&f, IDS("GPU-0::0", "GPU-1::0", "GPU-0::1"),
		"NVIDIA_VISIBLE_DEVICES=" ROOT " | " ROOT "/GPU-0 " ROOT "/GPU-1 |");
	f.host.imex_channel0 = true;
	EXPECT(&f, IDS("GPU-0::0"),
		"NVIDIA_VISIBLE_DEVICES=" ROOT " | " ROOT "/GPU-0 " ROOT "/imex/0 |");
	f.config->device_lists |= DEVICE_LIST_ENVVAR;
	EXPECT(&f, IDS("GPU-0::0"),
		"NVIDIA_VISIBLE_DEVICES=" ROOT " NVIDIA_IMEX_CHANNELS=0 | " ROOT "/GPU-0 " ROOT
		"/imex/0 |");
	f.config->device_lists = DEVICE_LIST_ENVVAR;
	f.config->gds = f.config->mofed = f.config->gdrcopy = true;
	EXPECT(&f, IDS("GPU-0::0"),
		"NVIDIA_GDRCOPY=enabled NVIDIA_GDS=enabled NVIDIA_MOFED=enabled "
		"NVIDIA_VISIBLE_DEVICES=GPU-0 NVIDIA_IMEX_CHANNELS=0 | |");
	f.config->device_lists = 0;
	EXPECT(&f, IDS("GPU-0::0"),
		"NVIDIA_GDRCOPY=enabled NVIDIA_GDS=enabled NVIDIA_MOFED=enabled | |");
	teardown(&f);
}

static void allocation_new__passes_device_nodes(void **state)
{
	static const struct {
		const char *root, *host;
	} rows[] = {
		{ "/", "/dev/nvidia20" },
		{ "", "/dev/nvidia20" },
		{ "/run/nvidia/driver", "/run/nvidia/driver/dev/nvidia20" },
		{ "/run//nvidia/./driver//", "/run/nvidia/driver/dev/nvidia20" },
		{ "driver", "driver/dev/nvidia20" },
	};
	struct fixture f;

	(void)state;
	setup(&f, 2, 2);
	f.config->pass_device_specs = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256];

		free(f.config->dev_root);
		f.config->dev_root = strdup(rows[i].root);
		(void)snprintf(text, sizeof(text),
			"NVIDIA_VISIBLE_DEVICES=GPU-0 | | %s:/dev/nvidia20:rw", rows[i].host);
		EXPECT(&f, IDS("GPU-0::0"), text);
	}
	free(f.config->dev_root);
	f.config->dev_root = strdup("/r");
	assert_ok(strv_add(&f.host.control_nodes, "/dev/nvidiactl", &f.err), &f.err);
	assert_ok(strv_add(&f.host.control_nodes, "/dev/nvidia-uvm", &f.err), &f.err);
	f.host.imex_channel0 = true;
	/* two replicas of one GPU list its node twice, as with NVIDIA */
	EXPECT(&f, IDS("GPU-1::0", "GPU-1::1"),
		"NVIDIA_VISIBLE_DEVICES=GPU-1 NVIDIA_IMEX_CHANNELS=0 | | "
		"/r/dev/nvidiactl:/dev/nvidiactl:rw /r/dev/nvidia-uvm:/dev/nvidia-uvm:rw "
		"/r/dev/nvidia21:/dev/nvidia21:rw /r/dev/nvidia21:/dev/nvidia21:rw "
		"/r/dev/nvidia-caps-imex-channels/channel0:/dev/nvidia-caps-imex-channels/"
		"channel0:rw");
	teardown(&f);
}

static void allocation_new__refuses(void **state)
{
	struct allocation *a = NULL;
	struct fixture f;

	(void)state;
	setup(&f, 2, 0);
	assert_error(make_test_allocation(&f, &a, IDS("GPU-1", "GPU-2")), &f.err,
		"invalid allocation request for \"nvidia.com/gpu\": invalid request: unknown "
		"device: GPU-2");
	/* two whole GPUs are fine even so */
	SLICING(f.config).fail_requests_greater_than_one = true;
	EXPECT(&f, IDS("GPU-1", "GPU-0"), "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0 | |");
	f.config->pass_device_specs = true;
	f.inv->gpus[1].has_minor = false;
	EXPECT(&f, IDS("GPU-0"),
		"NVIDIA_VISIBLE_DEVICES=GPU-0 | | /dev/nvidia20:/dev/nvidia20:rw");
	assert_error(make_test_allocation(&f, &a, IDS("GPU-1")), &f.err,
		"the device node of 'GPU-1'");
	assert_null(a);
	teardown(&f);
}

#define CDI(names) CDI_VENDOR "/" names

/* What NVIDIA's plugin answers, for whole GPUs gpu0 ... = GPU-0 ... */
static void allocation_new__names_cdi_devices(void **state)
{
	static const struct {
		const char *ids[3], *prefix;
		bool imex, gdrcopy, gds, mofed;
		const char *key, *value;
	} rows[] = {
		{ { NULL }, "cdi.k8s.io/", 0, 0, 0, 0, NULL, NULL },
		{ { "GPU-0" }, "cdi.k8s.io/", 0, 0, 0, 0,
			"cdi.k8s.io/nvidia-device-plugin_uuid", CDI("gpu=GPU-0") },
		{ { "GPU-0" }, "custom.cdi.k8s.io/", 0, 0, 0, 0,
			"custom.cdi.k8s.io/nvidia-device-plugin_uuid", CDI("gpu=GPU-0") },
		{ { "GPU-0", "GPU-1" }, "cdi.k8s.io/", 0, 0, 0, 0,
			"cdi.k8s.io/nvidia-device-plugin_uuid",
			CDI("gpu=GPU-0") "," CDI("gpu=GPU-1") },
		{ { NULL }, "cdi.k8s.io/", 0, 0, 0, 1, "cdi.k8s.io/nvidia-device-plugin_uuid",
			CDI("mofed=all") },
		{ { NULL }, "cdi.k8s.io/", 0, 0, 1, 0, "cdi.k8s.io/nvidia-device-plugin_uuid",
			CDI("gds=all") },
		{ { "GPU-0" }, "cdi.k8s.io/", 0, 0, 1, 1,
			"cdi.k8s.io/nvidia-device-plugin_uuid",
			CDI("gpu=GPU-0") "," CDI("gds=all") "," CDI("mofed=all") },
		{ { NULL }, "cdi.k8s.io/", 1, 0, 0, 0, "cdi.k8s.io/nvidia-device-plugin_uuid",
			CDI("imex-channel=0") },
		{ { "GPU-1" }, "cdi.k8s.io/", 1, 1, 1, 1,
			"cdi.k8s.io/nvidia-device-plugin_uuid",
			CDI("gpu=GPU-1") "," CDI("imex-channel=0") "," CDI(
				"gdrcopy=all") "," CDI("gds=all") "," CDI("mofed=all") },
	};
	struct fixture f;

	(void)state;
	setup(&f, 2, 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (unsigned lists = 1; lists < 4; lists++) {
			CLEANUP(buf_fini) struct buf names = BUF_INIT(4096);
			CLEANUP(allocation_freep) struct allocation *a = NULL;
			bool annotate = lists & 1, cri = lists & 2;

			f.config->device_lists = (annotate ? DEVICE_LIST_CDI_ANNOTATIONS : 0) |
						 (cri ? DEVICE_LIST_CDI_CRI : 0);
			free(f.config->cdi_annotation_prefix);
			f.config->cdi_annotation_prefix = strdup(rows[i].prefix);
			f.config->gdrcopy = rows[i].gdrcopy;
			f.config->gds = rows[i].gds;
			f.config->mofed = rows[i].mofed;
			f.config->pass_device_specs = true; /* not with CDI alone */
			f.host.imex_channel0 = rows[i].imex;
			f.host.cdi = (struct alloc_cdi){ .gpu = true,
				.imex_channel = true,
				.gdrcopy = true,
				.gds = true,
				.mofed = true,
				.response_id = "uuid" };
			assert_ok(make_test_allocation(&f, &a, rows[i].ids), &f.err);
			assert_int_equal(a->n_annotations, annotate && rows[i].key);
			if (a->n_annotations) {
				assert_string_equal(a->annotations[0].name, rows[i].key);
				assert_string_equal(a->annotations[0].value, rows[i].value);
			}
			for (size_t k = 0; k < a->cdi_devices.n; k++)
				buf_printf(&names, "%s%s", k ? "," : "", a->cdi_devices.v[k]);
			assert_string_equal(buf_str(&names),
				cri && rows[i].value ? rows[i].value : "");
			assert_int_equal(a->n_envs,
				rows[i].gdrcopy + rows[i].gds + rows[i].mofed);
			assert_int_equal(a->n_mounts + a->n_devices, 0);
		}
	}
	teardown(&f);
}

static void allocation_new__names_only_resolvable_devices(void **state)
{
	struct allocation *a = NULL;
	struct fixture f;

	(void)state;
	setup(&f, 2, 2);
	f.config->device_lists = DEVICE_LIST_CDI_CRI;
	f.host.cdi.why = "no space left";
	assert_error(make_test_allocation(&f, &a, IDS("GPU-0::1")), &f.err,
		"resource \"nvidia.com/gpu\": no CDI specification is in place for the container "
		"runtime: no space left");
	assert_int_equal(f.err.code, ERR_UNAVAILABLE);
	/* another strategy serves the container meanwhile */
	f.config->device_lists |= DEVICE_LIST_ENVVAR;
	assert_ok(make_test_allocation(&f, &a, IDS("GPU-0::1")), &f.err);
	assert_int_equal(a->cdi_devices.n, 0);
	assert_string_equal(a->envs[0].value, "GPU-0");
	a = allocation_free(a);
	/* replicas of a GPU are one device; the index may be the name */
	f.host.cdi.gpu = true;
	f.config->mofed = true;
	f.config->device_id = DEVICE_ID_INDEX;
	assert_ok(make_test_allocation(&f, &a, IDS("GPU-0::1", "GPU-1::1", "GPU-0::0")),
		&f.err);
	assert_int_equal(a->cdi_devices.n, 2);
	assert_string_equal(a->cdi_devices.v[0], CDI("gpu=10"));
	assert_string_equal(a->cdi_devices.v[1], CDI("gpu=11"));
	assert_string_equal(a->envs[1].value, "10,11"); /* with envvar there is both */
	a = allocation_free(a);
	f.inv->gpus[1].has_minor = false;
	assert_error(make_test_allocation(&f, &a, IDS("GPU-1::0")), &f.err,
		"the device node of 'GPU-1'");
	assert_null(a);
	teardown(&f);
}

/* A resource of whole and shared GPUs: the limit is for requests with a replica. */
static void allocation_new__tells_whole_from_shared(void **state)
{
	struct allocation *a = NULL;
	struct fixture f;

	(void)state;
	setup(&f, 3, 2);
	f.offer = offer_free(f.offer);
	f.config->sharing.entries[0].devices = DEVICES_COUNT;
	f.config->sharing.entries[0].count = 1;
	SLICING(f.config).fail_requests_greater_than_one = true;
	f.offer = fixture_offer(f.inv, f.config);
	EXPECT(&f, IDS("GPU-1", "GPU-2"), "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2 | |");
	assert_error(make_test_allocation(&f, &a, IDS("GPU-1", "GPU-0::0")), &f.err,
		"is 1; found 2");
	teardown(&f);
}

/* One resource of a whole GPU, one under MPS, one time-sliced: each device has the rule of its kind. */
static void allocation_new__limits_by_the_kind_of_sharing(void **state)
{
	struct allocation *a = NULL;
	struct fixture f;

	(void)state;
	setup(&f, 3, 0);
	f.offer = offer_free(f.offer);
	fixture_share(f.config, OFFER_GPU, NULL, 2, (const char *const[]){ "GPU-1", NULL });
	fixture_share_by(f.config, SHARING_MPS, OFFER_GPU, NULL, 2,
		(const char *const[]){ "GPU-0", NULL });
	f.offer = fixture_offer(f.inv, f.config);
	EXPECT(&f, IDS("GPU-1::0", "GPU-1::1"), "NVIDIA_VISIBLE_DEVICES=GPU-1 | |");
	EXPECT(&f, IDS("GPU-1::0", "GPU-2"), "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2 | |");
	EXPECT(&f, IDS("GPU-0::1"), "NVIDIA_VISIBLE_DEVICES=GPU-0 | |");
	assert_error(make_test_allocation(&f, &a, IDS("GPU-1::0", "GPU-0::1")), &f.err,
		"is 1; found 2");
	assert_error(make_test_allocation(&f, &a, IDS("GPU-0::0", "GPU-2")), &f.err,
		"is 1; found 2");
	teardown(&f);
}

static void allocation_new__limits_requests_for_replicas(void **state)
{
	static const enum sharing_strategy strategies[] = { SHARING_TIME_SLICING, SHARING_MPS };
	struct allocation *a = NULL;
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(strategies); i++) {
		setup(&f, 2, 2);
		f.offer = offer_free(f.offer);
		fixture_strategy(f.config, strategies[i]);
		f.config->sharing.kinds[strategies[i]].fail_requests_greater_than_one = false;
		f.offer = fixture_offer(f.inv, f.config);
		EXPECT(&f, IDS("GPU-0::1"), "NVIDIA_VISIBLE_DEVICES=GPU-0 | |");
		EXPECT(&f, IDS("GPU-0::1", "GPU-1::1"),
			"NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1 | |");
		f.offer = offer_free(f.offer);
		f.config->sharing.kinds[strategies[i]].fail_requests_greater_than_one = true;
		f.offer = fixture_offer(f.inv, f.config);
		EXPECT(&f, IDS("GPU-0::1"), "NVIDIA_VISIBLE_DEVICES=GPU-0 | |");
		assert_error(make_test_allocation(&f, &a, IDS("GPU-0::1", "GPU-1::1")), &f.err,
			"invalid allocation request for \"nvidia.com/gpu\": invalid request: "
			"maximum request size for shared resources is 1; found 2");
		/* the unknown device comes first */
		assert_error(make_test_allocation(&f, &a, IDS("GPU-0::1", "GPU-1::9")), &f.err,
			"unknown device: GPU-1::9");
		teardown(&f);
	}
	assert_null(allocation_free(NULL));
}

/* An allocation of all replicas that one GPU can have is complete, and takes little time. */
static void allocation_new__accepts_very_many_replicas(void **state)
{
	struct allocation *a = NULL;
	const char **ids;
	struct fixture f;
	uint32_t n;

	(void)state;
	setup(&f, 8, 5000);
	f.config->pass_device_specs = true;
	n = f.offer->resources[0].n_devices;
	ids = calloc(n + 1, sizeof(*ids));
	for (uint32_t i = 0; i < n; i++)
		ids[i] = f.offer->resources[0].devices[i].id;
	assert_ok(make_test_allocation(&f, &a, ids), &f.err);
	assert_string_equal(a->envs[0].value,
		"GPU-0,GPU-1,GPU-2,GPU-3,GPU-4,GPU-5,GPU-6,GPU-7");
	assert_int_equal(a->n_devices, n);
	allocation_free(a);
	free(ids);
	teardown(&f);
}

/* GPUs 10 and 11 with two MIG devices each: minors 20 and 21, capabilities 0 1, 10 11, 100 ... */
static void setup_mig(struct fixture *f, uint32_t replicas)
{
	*f = (struct fixture){ .inv = fixture_inventory(2), .config = fixture_config() };
	for (uint32_t i = 0; i < 2; i++) {
		f->inv->gpus[i].index = 10 + i;
		f->inv->gpus[i].minor = 20 + i;
	}
	for (uint32_t i = 0; i < 4; i++)
		(void)fixture_mig(f->inv, i / 2, 1, 1, 5);
	f->config->mig_strategy = MIG_STRATEGY_MIXED;
	if (replicas)
		fixture_share(f->config, "nvidia.com/mig-1g.5gb", NULL, replicas, NULL);
	f->offer = fixture_offer(f->inv, f->config);
}

#define NODE(path) "/host" path ":" path ":rw"

static void allocation_new__returns_mig_devices(void **state)
{
	struct fixture f;

	(void)state;
	setup_mig(&f, 0);
	EXPECT(&f, IDS("MIG-11-0"), "NVIDIA_VISIBLE_DEVICES=MIG-11-0 | |");
	EXPECT(&f, IDS("MIG-11-0", "MIG-10-1"), "NVIDIA_VISIBLE_DEVICES=MIG-11-0,MIG-10-1 | |");
	f.config->device_id = DEVICE_ID_INDEX;
	EXPECT(&f, IDS("MIG-11-0", "MIG-10-1"), "NVIDIA_VISIBLE_DEVICES=11:0,10:1 | |");
	f.config->device_lists = DEVICE_LIST_VOLUME_MOUNTS;
	EXPECT(&f, IDS("MIG-11-0"), "NVIDIA_VISIBLE_DEVICES=" ROOT " | " ROOT "/11:0 |");
	f.config->device_id = DEVICE_ID_UUID;
	EXPECT(&f, IDS("MIG-11-0"), "NVIDIA_VISIBLE_DEVICES=" ROOT " | " ROOT "/MIG-11-0 |");
	/* nodes: of the GPU, then of the GPU instance and of the compute instance */
	f.config->device_lists = DEVICE_LIST_ENVVAR;
	f.config->pass_device_specs = true;
	free(f.config->dev_root);
	f.config->dev_root = strdup("/host");
	assert_ok(strv_add(&f.host.control_nodes, "/dev/nvidiactl", &f.err), &f.err);
	EXPECT(&f, IDS("MIG-11-1"),
		"NVIDIA_VISIBLE_DEVICES=MIG-11-1 | | " NODE("/dev/nvidiactl") " " NODE("/dev/nvidia21") " " NODE(
			"/dev/nvidia-caps/nvidia-cap110") " " NODE("/dev/nvidia-caps/nvidia-cap111"));
	/* two of one GPU name it twice, as with NVIDIA */
	EXPECT(&f, IDS("MIG-10-0", "MIG-10-1"),
		"NVIDIA_VISIBLE_DEVICES=MIG-10-0,MIG-10-1 | | " NODE("/dev/nvidiactl") " " NODE("/dev/nvidia20") " " NODE("/dev/nvidia-caps/nvidia-cap0") " " NODE(
			"/dev/nvidia-caps/nvidia-cap1") " " NODE("/dev/nvidia20") " " NODE("/dev/nvidia-caps/nvidia-cap10") " " NODE("/dev/nvidia-caps/nvidia-cap11"));
	teardown(&f);
	setup_mig(&f, 2);
	EXPECT(&f, IDS("MIG-11-0::1", "MIG-11-0::0", "MIG-10-0::0"),
		"NVIDIA_VISIBLE_DEVICES=MIG-11-0,MIG-10-0 | |");
	teardown(&f);
}

static void allocation_new__never_returns_the_gpu_of_a_mig_device(void **state)
{
	struct allocation *a = NULL;
	struct fixture f;

	(void)state;
	setup_mig(&f, 0);
	assert_error(make_test_allocation(&f, &a, IDS("GPU-0")), &f.err,
		"unknown device: GPU-0");
	assert_error(make_test_allocation(&f, &a, IDS("MIG-10-0::0")), &f.err,
		"unknown device: MIG-10-0::0");
	/* without its capabilities a container would find nothing, or everything */
	f.inv->mig[1].has_minors = false;
	EXPECT(&f, IDS("MIG-10-1"), "NVIDIA_VISIBLE_DEVICES=MIG-10-1 | |");
	f.config->pass_device_specs = true;
	assert_error(make_test_allocation(&f, &a, IDS("MIG-10-0", "MIG-10-1")), &f.err,
		"resource \"nvidia.com/mig-1g.5gb\": the capability nodes of 'MIG-10-1' are not "
		"known");
	assert_int_equal(f.err.code, ERR_UNAVAILABLE);
	assert_ok(make_test_allocation(&f, &a, IDS("MIG-10-0")), &f.err);
	a = allocation_free(a);
	f.config->pass_device_specs = false;
	f.config->device_lists = DEVICE_LIST_CDI_CRI;
	f.host.cdi.gpu = true;
	assert_error(make_test_allocation(&f, &a, IDS("MIG-10-1")), &f.err,
		"the capability nodes of 'MIG-10-1' are not known");
	f.inv->gpus[0].has_minor = false;
	assert_error(make_test_allocation(&f, &a, IDS("MIG-10-0")), &f.err,
		"the device node of 'GPU-0' is not known");
	assert_ok(make_test_allocation(&f, &a, IDS("MIG-11-0")), &f.err);
	assert_int_equal(a->cdi_devices.n, 1);
	assert_string_equal(a->cdi_devices.v[0], CDI_VENDOR "/gpu=MIG-11-0");
	a = allocation_free(a);
	f.config->device_id = DEVICE_ID_INDEX;
	assert_ok(make_test_allocation(&f, &a, IDS("MIG-11-0")), &f.err);
	assert_string_equal(a->cdi_devices.v[0], CDI_VENDOR "/gpu=11:0");
	a = allocation_free(a);
	/* an offer of another inventory names nothing here */
	f.inv->n_mig = 2;
	assert_error(make_test_allocation(&f, &a, IDS("MIG-11-0")), &f.err,
		"unknown device: MIG-11-0");
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocation_new__lists_devices),
		cmocka_unit_test(allocation_new__mounts_and_options),
		cmocka_unit_test(allocation_new__passes_device_nodes),
		cmocka_unit_test(allocation_new__refuses),
		cmocka_unit_test(allocation_new__names_cdi_devices),
		cmocka_unit_test(allocation_new__names_only_resolvable_devices),
		cmocka_unit_test(allocation_new__tells_whole_from_shared),
		cmocka_unit_test(allocation_new__limits_by_the_kind_of_sharing),
		cmocka_unit_test(allocation_new__limits_requests_for_replicas),
		cmocka_unit_test(allocation_new__accepts_very_many_replicas),
		cmocka_unit_test(allocation_new__returns_mig_devices),
		cmocka_unit_test(allocation_new__never_returns_the_gpu_of_a_mig_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
