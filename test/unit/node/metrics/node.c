/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "unit/node/metrics/node.h"

#define MIB UINT64_C(1048576)
#define S   UINT64_C(1000000000)

/* --- figures --- */

struct figure {
	const char *name;
	double value;
};

static const struct figure board[] = {
	{ "DCGM_FI_DEV_SM_CLOCK", 1980 },
	{ "DCGM_FI_DEV_MEM_CLOCK", 2619 },
	{ "DCGM_FI_DEV_MEMORY_TEMP", 45 },
	{ "DCGM_FI_DEV_GPU_TEMP", 38 },
	{ "DCGM_FI_DEV_POWER_USAGE", 412.25 },
	{ "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1234567890123 },
	{ "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 0 },
	{ "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 120 },
	{ "DCGM_FI_DEV_VGPU_LICENSE_STATUS", 0 },
	{ "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 0 },
	{ "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 2 },
	{ "DCGM_FI_DEV_ROW_REMAP_FAILURE", 0 },
	{ "DCGM_FI_PROF_PCIE_TX_BYTES", 5242880 },
	{ "DCGM_FI_PROF_PCIE_RX_BYTES", 1048576 },
};

static const struct figure not_under_mig[] = {
	{ "DCGM_FI_DEV_GPU_UTIL", 60 },
	{ "DCGM_FI_DEV_MEM_COPY_UTIL", 21 },
	{ "DCGM_FI_DEV_ENC_UTIL", 0 },
	{ "DCGM_FI_DEV_DEC_UTIL", 0 },
};

static const struct figure instance[] = {
	{ "DCGM_FI_DEV_FB_FREE", 30000 },
	{ "DCGM_FI_DEV_FB_USED", 10000 },
	{ "DCGM_FI_DEV_FB_RESERVED", 559 },
	{ "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.6 },
	{ "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.25 },
	{ "DCGM_FI_PROF_DRAM_ACTIVE", 0.125 },
};

static const struct figure old_gpu[] = {
	{ "DCGM_FI_DEV_SM_CLOCK", 1590 },
	{ "DCGM_FI_DEV_GPU_TEMP", 61 },
	{ "DCGM_FI_DEV_POWER_USAGE", 70 },
	{ "DCGM_FI_DEV_GPU_UTIL", 100 },
	{ "DCGM_FI_DEV_FB_FREE", 5000 },
	{ "DCGM_FI_DEV_FB_USED", 10109 },
};

/* Adds to what there is, by position as the contract of a sample has it. */
static void add_figures(struct sample_device *s, const struct figure *figures, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int field = field_position(figures[i].name);

		assert_true(field >= 0);
		s->values = realloc(s->values, (s->n_values + 1) * sizeof(*s->values));
		assert_non_null(s->values);
		s->values[s->n_values] = (struct sample_value){ .field = (uint16_t)field };
		if (fields[field].kind == FIELD_REAL)
			s->values[s->n_values].real = figures[i].value;
		else
			s->values[s->n_values].i = (int64_t)figures[i].value;
		s->n_values++;
	}
}

void node_add(struct sample_device *s, const char *field, double value)
{
	add_figures(s, &(struct figure){ field, value }, 1);
}

/* --- the parts of a view --- */

static const char *copy_view_text(struct view *v, const char *t)
{
	const char *copy = view_text(v, t);

	assert_non_null(copy);
	return copy;
}

static void *allocate_array(struct view *v, size_t n, size_t size)
{
	void *p = view_array(v, n, size);

	assert_non_null(p);
	return p;
}

static void make_node(struct view *v)
{
	v->seq = 7;
	v->wall_ns = 1795608000 * S;
	v->mono_ns = 1000 * S;
	v->interval_ns = 5 * S;
	v->since_wall_ns = 1795600000 * S;
	v->node = v->hostname = copy_view_text(v, "node1");
	v->driver_version = copy_view_text(v, "580.159.04");
	v->nvml_version = copy_view_text(v, "13.580.159.04");
	v->cuda_version = copy_view_text(v, "13.0");
	v->instance_type = copy_view_text(v, "p5.4xlarge");
	v->region = copy_view_text(v, "us-east-1");
	v->nvml_up = v->allocations_known = v->ready = v->config_decided = true;
	v->nvml_error = v->allocations_error = v->config_error = copy_view_text(v, "");
	v->priced = true;
	v->price_nano_per_hour = 6880000000;
	v->currency = copy_view_text(v, "USD");
	v->price_source = copy_view_text(v, "catalogue");
	v->config_generation = 3;
	v->config_since_wall_ns = 1795601000 * S;
	v->config_source = copy_view_text(v, "/config/config.yaml");
	v->config_sharing = copy_view_text(v, "none");
	v->agent.version = copy_view_text(v, "0.1.0");
	v->agent.started_wall_ns = 1795600000 * S;
	v->agent.cpu_ns = 12345678900;
	v->agent.rss_bytes = 9 * MIB;
	v->agent.threads = 6;
	v->agent.fds = 31;
	v->agent.proc_known = true;
	v->agent.rounds = 1600;
	v->agent.round_ns = 1500000;
	v->agent.usage_db_error = copy_view_text(v, "");
	v->agent.web = (struct view_web){ .known = true,
		.requests = { 0, 4711, 12, 3, 1 },
		.refused_full = 5,
		.refused_address = 6,
		.displaced = 7,
		.timeouts = 8,
		.malformed = 9,
		.pauses = 10,
		.connections = 2 };
}

static void make_gpu(struct view *v, bool old)
{
	struct view_gpu *g = v->gpus = allocate_array(v, 1, sizeof(*v->gpus));

	v->n_gpus = 1;
	*g = (struct view_gpu){ .uuid = copy_view_text(v,
					"GPU-0bb0c5a1-1111-2222-3333-444455556666"),
		.name = copy_view_text(v, old ? "Tesla T4" : "NVIDIA H100 80GB HBM3"),
		.bus_id = copy_view_text(v, "00000000:00:06.0"),
		.cc_known = true,
		.cc_major = old ? 7 : 9,
		.cc_minor = old ? 5 : 0,
		.numa_node = 0,
		.reason = copy_view_text(v, ""),
		.refused = copy_view_text(v, ""),
		.health_since_wall_ns = 1795600000 * S,
		.present = true,
		.xids_known = true,
		.fault = copy_view_text(v, "ok"),
		.recovery = copy_view_text(v, old ? "" : "none"),
		.reset_known = !old,
		.warning = copy_view_text(v,
			old ? ""
			    : "a remapped memory row takes effect with the next GPU reset"),
		.mig_known = true,
		.mig_capable = !old,
		.sample = &v->sample->devices[0],
		.sampled = true,
		.cost_nano_per_hour = 6880000000 };
	if (!old) { /* figures that an old driver lacks have no line */
		g->n_signals = 2;
		g->signals = allocate_array(v, 2, sizeof(*g->signals));
		g->signals[0] = (struct view_signal){ "rowRemapFailed", "unhealthy", 0 };
		g->signals[1] = (struct view_signal){ "rowRemapPending", "warning", 1 };
		g->reset_required = true;
	}
	(void)snprintf(v->sample->devices[0].uuid, sizeof(v->sample->devices[0].uuid), "%s",
		g->uuid);
}

static struct view_device *make_device(struct view *v, const struct sample_device *s)
{
	struct view_device *device = &v->devices[v->n_devices++];

	v->gpus[0].n_devices = v->n_devices;
	*device = (struct view_device){ .uuid = v->gpus[0].uuid,
		.label = copy_view_text(v, "0"),
		.gi = GPU_NO_INSTANCE,
		.ci = GPU_NO_INSTANCE,
		.part = VIEW_MILLION,
		.reason = copy_view_text(v, ""),
		.refused = copy_view_text(v, ""),
		.resource = copy_view_text(v, "nvidia.com/gpu"),
		.offered = true,
		.sample = s,
		.memory_known = true,
		.allocated_known = true,
		.counted = true,
		.memory_total = 81559 * MIB,
		.memory_used = 10000 * MIB,
		.other_memory = 10000 * MIB,
		.memory_free = 70000 * MIB,
		.busy_known = true,
		.busy_ns = 600 * S,
		.other_busy_ns = 600 * S,
		.busy = 600000,
		.present_ns = 1000 * S,
		.idle_gpu_ns = 1000 * S,
		.cost_nano = 1911111111,
		.idle_cost_nano = 1911111111,
		.first_use = v->n_uses,
		.n_replicas = 1 };
	v->cost_nano += device->cost_nano;
	return device;
}

/* Moves from what is other and idle to the use, so that the sums go on to hold. */
static struct view_use *make_use(struct view *v, struct view_device *device, const char *pod,
	uint32_t share, uint32_t received)
{
	struct view_use *use = &v->uses[v->n_uses++];

	*use = (struct view_use){ .device = (uint32_t)(device - v->devices),
		.namespace_ = copy_view_text(v, "ml"),
		.pod = copy_view_text(v, pod),
		.container = copy_view_text(v, "main"),
		.uid = view_printf(v, "uid-of-%s", pod),
		.resource = device->resource,
		.mode = device->mode,
		.live = true,
		.began_wall_ns = 1795607000 * S,
		.offered_now = true,
		.n_replicas = 1,
		.replica_id = copy_view_text(v, "replica"),
		.share = share,
		.received = received,
		.memory_known = true,
		.memory_counted = true,
		.peak_known = true,
		.memory_current = true,
		.processes_known = true,
		.busy_current = true,
		.allocation_current = true,
		.memory_used = device->memory_used / 4,
		.memory_peak = device->memory_used / 2,
		.memory_limit = UINT64_MAX,
		.n_processes = 1,
		.busy_known = true,
		.allocated_ns = 500 * S,
		.gpu_ns = 500 * S / VIEW_MILLION * share,
		.busy_ns = 100 * S + 1,
		.memory_byte_s = 1000 * MIB,
		.cost_nano = 100000001 };
	device->n_uses++;
	device->replicas_used++;
	device->allocated += share;
	device->other_memory -= use->memory_used;
	device->other_busy_ns -= use->busy_ns;
	device->idle_gpu_ns -= use->gpu_ns;
	device->idle_cost_nano -= use->cost_nano;
	return use;
}

static void make_resource(struct view *v, const char *name, enum view_mode mode, uint32_t n)
{
	struct view_resource *r = &v->resources[v->n_resources++];

	*r = (struct view_resource){ .allocated_known = true,
		.name = copy_view_text(v, name),
		.mode = mode,
		.replicas = mode == VIEW_EXCLUSIVE ? 1 : n,
		.capacity = n,
		.allocatable = n,
		.used = v->n_uses,
		.idle = n - v->n_uses,
		.state = copy_view_text(v, "registered"),
		.reason = copy_view_text(v, "") };
}

/* --- the nodes --- */

static void make_whole(struct view *v, bool held)
{
	struct view_device *device = make_device(v, &v->sample->devices[0]);

	add_figures(&v->sample->devices[0], board, ARRAY_LEN(board));
	add_figures(&v->sample->devices[0], not_under_mig, ARRAY_LEN(not_under_mig));
	add_figures(&v->sample->devices[0], instance, ARRAY_LEN(instance));
	if (held)
		(void)make_use(v, device, "train-0", VIEW_MILLION, 600000);
	make_resource(v, "nvidia.com/gpu", VIEW_EXCLUSIVE, 1);
}

static void make_shared(struct view *v)
{
	struct view_device *device;

	make_whole(v, false);
	device = &v->devices[0];
	device->mode = VIEW_TIME_SLICING;
	device->n_replicas = 4;
	(void)make_use(v, device, "a\"quoted\\pod", 250000, 300001);
	make_use(v, device, "notebook", 250000, 200000)->replica = 3;
	v->n_resources = 0;
	make_resource(v, "nvidia.com/gpu", VIEW_TIME_SLICING, 4);
}

static struct view_device *make_mig(struct view *v, uint32_t at, uint32_t gi, uint32_t ci,
	const char *profile, uint32_t part)
{
	struct view_device *device = make_device(v, &v->sample->devices[at]);

	device->mig = true;
	device->uuid = view_printf(v, "MIG-%u", at);
	device->profile = copy_view_text(v, profile);
	device->resource = copy_view_text(v, "nvidia.com/mig");
	device->gi = gi;
	device->ci = ci;
	device->part = part;
	add_figures(&v->sample->devices[at], instance, ARRAY_LEN(instance));
	return device;
}

static void make_mig_node(struct view *v)
{
	struct view_device *half;

	v->gpus[0].mig_enabled = true;
	v->gpus[0].mig_slices = 7;
	add_figures(&v->sample->devices[0], board, ARRAY_LEN(board));
	/* The board has these as well, and they must not be counted twice. */
	add_figures(&v->sample->devices[0], instance, ARRAY_LEN(instance));
	(void)make_use(v, make_mig(v, 1, 2, 0, "3g.40gb", 428571), "train-0", 428571, 257143);
	(void)make_mig(v, 2, 9, 0, "1g.10gb", 142857);
	half = make_mig(v, 3, 10, 0, "1c.2g.20gb", 142857);
	(void)make_use(v, half, "one", 142857, 100000);
	half = make_mig(v, 4, 10, 1, "1c.2g.20gb", 142857);
	(void)make_use(v, half, "other", 142857, 42857);
	make_resource(v, "nvidia.com/mig", VIEW_EXCLUSIVE, 4);
}

static void make_old(struct view *v)
{
	struct view_gpu *g = &v->gpus[0];
	struct view_device *device = make_device(v, &v->sample->devices[0]);

	add_figures(&v->sample->devices[0], old_gpu, ARRAY_LEN(old_gpu));
	g->health = device->health = VIEW_UNHEALTHY;
	g->reason = copy_view_text(v, "XID 48: double bit ECC error");
	g->last_xid = 48;
	g->xid_count = 3;
	g->n_xids = 2;
	g->xids = allocate_array(v, 2, sizeof(*g->xids));
	g->xids[0] = (struct view_xid){ .xid = 13, .count = 2 };
	g->xids[1] =
		(struct view_xid){ .xid = 48, .count = 1, .last_wall_ns = 1795607999 * S + 5 };
	v->priced = false;
	v->cost_nano = device->cost_nano = device->idle_cost_nano = 0;
	make_resource(v, "nvidia.com/gpu", VIEW_EXCLUSIVE, 1);
}

static void make_replicas(struct view *v)
{
	for (uint32_t i = 0; i < v->n_devices; i++) {
		struct view_device *device = &v->devices[i];

		device->first_replica = v->n_replicas;
		for (uint32_t k = 0; k < device->n_replicas; k++)
			v->replicas[v->n_replicas++] = (struct view_replica){ .device = i,
				.id = view_printf(v, "%s::%u", device->uuid, k),
				.resource = device->resource,
				.replica = k,
				.share = VIEW_MILLION / device->n_replicas,
				.memory_limit = UINT64_MAX,
				.healthy = true,
				.use = k < device->n_uses ? device->first_use + k : VIEW_NONE };
	}
}

int node_view(struct view **ret, enum node_kind kind, struct error *err)
{
	CLEANUP(view_unrefp) struct view *v = NULL;

	if (view_new(&v, err) < 0 || sample_new(&v->sample, kind == NODE_MIG ? 5 : 1, err) < 0)
		return -1;
	make_node(v);
	v->devices = allocate_array(v, 4, sizeof(*v->devices));
	v->uses = allocate_array(v, 4, sizeof(*v->uses));
	v->resources = allocate_array(v, 1, sizeof(*v->resources));
	v->replicas = allocate_array(v, 4, sizeof(*v->replicas));
	make_gpu(v, kind == NODE_OLD);
	v->agent.web.known = kind != NODE_OLD; /* of a web server that serves no client */
	if (kind == NODE_WHOLE || kind == NODE_IDLE)
		make_whole(v, kind == NODE_WHOLE);
	else if (kind == NODE_SHARED)
		make_shared(v);
	else if (kind == NODE_MIG)
		make_mig_node(v);
	else
		make_old(v);
	make_replicas(v);
	if (view_failed(v))
		return error_nomem(err);
	*ret = STEAL_PTR(v);
	return 0;
}

char *node_text(const struct view *v, const struct metrics_options *o, const char *csv,
	enum metrics_format format)
{
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(METRICS_BYTES_MAX);
	struct metrics_options usual;
	struct error err = ERROR_INIT;
	struct metrics_request rq = { .view = v, .options = o ? o : &usual, .format = format };
	char *got;

	metrics_options_default(&usual);
	if (csv)
		assert_ok(metrics_counters_parse(&c, "test.csv", csv, strlen(csv), NULL, &err),
			&err);
	else
		assert_ok(metrics_counters_read(&c, NULL, NULL, &err), &err);
	rq.counters = c;
	assert_ok(metrics_render(&out, &rq, &err), &err);
	got = buf_steal(&out);
	assert_non_null(got);
	return got;
}

void node_expect_text(const char *name, const char *text)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(4 << 20);
	struct error err = ERROR_INIT;
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/test/data/metrics/%s.txt", TEST_SOURCE, name);
	if (getenv("UPDATE_GOLDEN")) {
		assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
		return;
	}
	assert_ok(file_read(path, &file, &err), &err);
	assert_string_equal(text, buf_str(&file));
}

void node_extract_dcgm(char *text)
{
	char *own = strstr(text, "# HELP gpuslice_");

	if (own)
		*own = '\0';
}

struct metrics_options node_options(void)
{
	struct metrics_options o;

	metrics_options_default(&o);
	return o;
}
