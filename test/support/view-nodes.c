/* SPDX-License-Identifier: Apache-2.0 */
#include "support/view-sample-internal.h"

#define H100       "NVIDIA H100 80GB HBM3"
#define A100       "NVIDIA A100-PCIE-40GB"
#define H100_BYTES (81559ULL << 20)
#define A100_BYTES (40960ULL << 20)
#define HOUR       3600U
#define GIB(n)     ((uint64_t)(n) << 30)
#define WHOLE_SEAT (&(struct sample_replica){ .share = VIEW_MILLION })
#define LONG_NAME                                                                             \
	"experiment-2026-11-\"größer-als-erwartet\"-<b>attention</b>-&amp;-ablation-study-" \
	"with-a-name-that-does-not-end-日本語-0"

static void set_sample_price(struct sample_maker *m, uint64_t per_gpu, uint32_t gpus,
	const char *source)
{
	m->gpu_price = per_gpu;
	m->v->priced = true;
	m->v->price_nano_per_hour = per_gpu * gpus;
	m->v->currency = "USD";
	m->v->price_source = source;
}

static void make_empty_node(struct sample_maker *m)
{
	struct view *v = m->v;

	v->seq = 1;
	v->driver_version = v->nvml_version = v->cuda_version = v->instance_type = v->region =
		"";
	v->nvml_up = v->allocations_known = v->config_decided = v->ready = false;
	v->nvml_error = "libnvidia-ml.so.1: cannot open shared object file";
	v->allocations_error =
		"/var/lib/kubelet/pod-resources/kubelet.sock: Connection refused";
	v->config_generation = 0;
	v->config_since_wall_ns = 0;
	v->config_sharing = "none";
	v->config_error =
		"/etc/gpuslice/config.yaml:3:5: replicas: expected a number from 1, found 'two'";
	v->agent.started_wall_ns = v->since_wall_ns = v->wall_ns - 5000000000;
	v->agent.nvml_errors = 3;
	v->agent.usage_db_error = "/var/lib/gpuslice/ledger.db: No space left on device";
	v->agent.usage_db_errors = 1;
}

static void make_single_gpu_node(struct sample_maker *m)
{
	m->v->config_sharing = "none";
	m->v->instance_type = "p5.4xlarge";
	set_sample_price(m, 6880000000, 1, "catalogue");
	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_of_gpu(m, VIEW_EXCLUSIVE, "nvidia.com/gpu");
	sample_replicas(m, 1, WHOLE_SEAT);
	(void)sample_use(m,
		&(struct sample_use_row){ "research", "llama-finetune-0", "trainer",
			.memory_mib = 61440, .received = 934000, .allocated_s = 9 * HOUR });
	sample_device_end(m, 941000);
}

/* --- the mixed node, GPU by GPU --- */

static void gpu_time_slicing(struct sample_maker *m)
{
	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_of_gpu(m, VIEW_TIME_SLICING, "nvidia.com/gpu.shared");
	sample_replicas(m, 4, &(struct sample_replica){ .share = 250000 });
	(void)sample_use(m,
		&(struct sample_use_row){ "data", "etl-7c9d6b5f4-x2x8q", "cudf",
			.memory_mib = 9216, .received = 118000, .allocated_s = 5 * HOUR });
	(void)sample_use(m, &(struct sample_use_row){ "notebooks", "jupyter-amelie", "notebook",
				    .n_used_replicas = 2, .memory_mib = 22528,
				    .received = 341000, .allocated_s = 11 * HOUR });
	(void)sample_use(m, &(struct sample_use_row){ "data", "etl-7c9d6b5f4-k4hzz", "cudf",
				    .memory_mib = 9216, .received = 90000, .allocated_s = HOUR,
				    .ended_s = 95 });
	sample_device_end(m, 472000);
}

static void gpu_mps(struct sample_maker *m)
{
	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_of_gpu(m, VIEW_MPS, "nvidia.com/gpu.mps");
	sample_replicas(m, 4,
		&(struct sample_replica){ .share = 250000, .memory_limit = GIB(19) });
	(void)sample_use(m,
		&(struct sample_use_row){ "serving", "bert-6d8f9-aaaaa", "server",
			.memory_mib = 6144, .received = 207000, .allocated_s = 30 * HOUR });
	(void)sample_use(m,
		&(struct sample_use_row){ "serving", "bert-6d8f9-bbbbb", "server",
			.memory_mib = 6144, .received = 198000, .allocated_s = 30 * HOUR });
	(void)sample_use(m,
		&(struct sample_use_row){ "serving", "whisper-5b7c4-ccccc", "server",
			.memory_mib = 11264, .received = 31000, .allocated_s = 2 * HOUR });
	sample_device_end(m, 449000);
}

static void gpu_slices(struct sample_maker *m)
{
	struct view_use *c;

	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_of_gpu(m, VIEW_SLICES, "nvidia.com/gpu.inference");
	sample_replicas(m, 2,
		&(struct sample_replica){ .share = 125000, .memory_limit = GIB(10) });
	sample_replicas(m, 1,
		&(struct sample_replica){ "nvidia.com/gpu.training", 500000, GIB(40) });
	sample_replicas(m, 2,
		&(struct sample_replica){ "nvidia.com/gpu.small", 125000, GIB(8) });
	c = sample_use(m,
		&(struct sample_use_row){ "serving", "chat-0", "vllm", .memory_mib = 9830,
			.received = 97000, .allocated_s = 20 * HOUR });
	sample_slice(m, c,
		&(struct view_slice){ .compute = "fair",
			.class_ = "latency",
			.weight = 1,
			.queue_ns = 812000000,
			.wait_ns = 1900000000,
			.quanta = 71210,
			.waits = 9120,
			.launches = 5120000,
			.copies = 81000,
			.has_quantum = true });
	c = sample_use(m, &(struct sample_use_row){ "batch", "tokenize-3", "worker",
				  .resource = "nvidia.com/gpu.small", .memory_mib = 7900,
				  .received = 124000, .allocated_s = 4 * HOUR });
	sample_slice(m, c,
		&(struct view_slice){ .compute = "capped",
			.weight = 1,
			.cap = 125000,
			.queue_ns = 611000000000,
			.wait_ns = 1201000000000,
			.quanta = 4410,
			.quantum_ends = { [SCHED_END_EXPIRED] = 612,
				[SCHED_END_RENEWED] = 81,
				[SCHED_END_IDLE] = 930,
				[SCHED_END_CAP] = 2781,
				[SCHED_END_INTERRUPTED] = 6 },
			.waits = 80100,
			.launches = 912000,
			.copies = 2200,
			.revocations = 118,
			.refusals = 7,
			.over_limit = true,
			.unhooked = 134217728 });
	c = sample_use(m, &(struct sample_use_row){ "research", "pretrain-1", "trainer",
				  .resource = "nvidia.com/gpu.training", .memory_mib = 38912,
				  .received = 702000, .allocated_s = 16 * HOUR });
	sample_slice(m, c,
		&(struct view_slice){ .compute = "fair",
			.weight = 4,
			.queue_ns = 92000000000,
			.wait_ns = 141000000000,
			.quanta = 51200,
			.waits = 22000,
			.launches = 71200000,
			.copies = 1200000,
			.revocations = 2210 });
	sample_device_end(m, 951000);
}

/* Holes: no instance has compute slices 3 and 5 and memory slices 5 and 7. */
static void gpu_mig_h100(struct sample_maker *m)
{
	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_mig(m, VIEW_EXCLUSIVE, "nvidia.com/mig-3g.40gb",
		&(struct sample_place){ "3g.40gb", 1, 0, 0, 3, 0, 4 });
	sample_replicas(m, 1, WHOLE_SEAT);
	(void)sample_use(m,
		&(struct sample_use_row){ "research", "rl-agent-2", "learner",
			.memory_mib = 30720, .received = 311000, .allocated_s = 7 * HOUR });
	sample_device_end(m, 726000);
	(void)sample_device_mig(m, VIEW_EXCLUSIVE, "nvidia.com/mig-1g.10gb",
		&(struct sample_place){ "1g.10gb", 9, 0, 4, 1, 4, 1 });
	sample_replicas(m, 1, WHOLE_SEAT);
	(void)sample_use(m,
		&(struct sample_use_row){ "notebooks", "jupyter-bo", "notebook",
			.memory_mib = 2048, .received = 4000, .allocated_s = 3 * HOUR });
	sample_device_end(m, 28000);
	(void)sample_device_mig(m, VIEW_EXCLUSIVE, "nvidia.com/mig-1g.10gb",
		&(struct sample_place){ "1g.10gb", 10, 0, 6, 1, 6, 1 });
	sample_replicas(m, 1, WHOLE_SEAT);
	sample_device_end(m, 0);
}

/* NVML does not report it for a compute instance; so it is unknown for the GPU too. */
static void busy_unknown(struct sample_maker *m, struct view_device *device)
{
	struct view_gpu *g = &m->v->gpus[device->gpu];

	device->busy_known = false;
	device->busy = VIEW_NONE;
	for (uint32_t i = 0; device->points && g->points && i < device->n_points; i++)
		device->points[i].busy = g->points[i].busy = VIEW_NONE;
}

/* A GPU instance that is cut in two compute instances, and a MIG device that is shared. Compute slice 3 is free. */
static void gpu_mig_a100(struct sample_maker *m)
{
	struct view_device *device;

	(void)sample_gpu(m, A100, A100_BYTES);
	(void)sample_device_mig(m, VIEW_TIME_SLICING, "nvidia.com/mig-2g.10gb.shared",
		&(struct sample_place){ "2g.10gb", 3, 0, 0, 2, 0, 2 });
	sample_replicas(m, 2, &(struct sample_replica){ .share = 500000 });
	(void)sample_use(m,
		&(struct sample_use_row){ "ci", "gpu-tests-4411", "runner", .memory_mib = 3072,
			.received = 66000, .allocated_s = 600 });
	sample_device_end(m, 231000);
	device = sample_device_mig(m, VIEW_EXCLUSIVE, "nvidia.com/mig-1c.3g.20gb",
		&(struct sample_place){ "1c.3g.20gb", 2, 0, 4, 1, 4, 4 });
	sample_replicas(m, 1, WHOLE_SEAT);
	(void)sample_use(m, &(struct sample_use_row){ "ci", "gpu-tests-4412", "runner",
				    .memory_mib = 4096, .received = 0, .allocated_s = 420 });
	m->v->uses[m->v->n_uses - 1].received = VIEW_NONE;
	m->v->uses[m->v->n_uses - 1].busy_from = VIEW_FROM_NOTHING;
	sample_device_end(m, 0);
	busy_unknown(m, device);
	device = sample_device_mig(m, VIEW_EXCLUSIVE, "nvidia.com/mig-2c.3g.20gb",
		&(struct sample_place){ "2c.3g.20gb", 2, 1, 5, 2, 4, 4 });
	sample_replicas(m, 1, WHOLE_SEAT);
	sample_device_end(m, 0);
	busy_unknown(m, device);
}

static void gpu_whole(struct sample_maker *m)
{
	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_of_gpu(m, VIEW_EXCLUSIVE, "nvidia.com/gpu");
	sample_replicas(m, 1, WHOLE_SEAT);
	(void)sample_use(m,
		&(struct sample_use_row){
			"a-namespace-of-sixty-three-characters-which-is-the-most-there-is-1",
			LONG_NAME, "container-with-a-rather-long-name-too", .memory_mib = 71680,
			.received = 988000, .allocated_s = 26 * HOUR });
	(void)sample_use(m, &(struct sample_use_row){ "research", "sweep-17", "trainer",
				    .memory_mib = 40960, .received = 612000,
				    .allocated_s = 2 * HOUR, .ended_s = 30 });
	sample_device_end(m, 992000);
}

/* Makes the figures of the last container unknown: the agent has never seen its GPU. */
static void nothing_known(struct sample_maker *m)
{
	struct view_use *c = &m->v->uses[m->v->n_uses - 1];

	c->received = VIEW_NONE;
	c->busy_from = c->memory_from = VIEW_FROM_NOTHING;
	c->busy_known = c->busy_current = c->processes_known = false;
	c->memory_known = c->memory_counted = c->memory_current = c->peak_known = false;
}

static void gpu_lost(struct sample_maker *m)
{
	struct view_gpu *g = sample_gpu(m, H100, H100_BYTES);
	struct view_device *device = sample_device_of_gpu(m, VIEW_EXCLUSIVE, "nvidia.com/gpu");

	g->health = device->health = VIEW_UNHEALTHY;
	g->reason = device->reason = "XID 79: GPU has fallen off the bus";
	g->health_since_wall_ns = m->v->wall_ns - UINT64_C(754) * 1000000000U;
	g->fault = gpu_fault_name(GPU_FAULT_LOST);
	g->recovery = "reset";
	g->reset_known = g->reset_required = true;
	g->signals = view_array(m->v, 2, sizeof(*g->signals));
	if (g->signals) {
		g->signals[0] = (struct view_signal){ "rowRemapFailed", "unhealthy", 0 };
		g->signals[1] = (struct view_signal){ "gpuReset", "unhealthy", 1 };
		g->n_signals = 2;
	}
	g->present = false;
	g->sample = device->sample = NULL;
	g->sampled = false;
	g->sample_age_ns = 0;
	g->xids = view_array(m->v, 2, sizeof(*g->xids));
	if (g->xids) {
		g->xids[0] = (struct view_xid){ 48, 2, 0 };
		g->xids[1] = (struct view_xid){ 79, 1, g->health_since_wall_ns };
		g->n_xids = 2;
	}
	g->xid_count = 3;
	g->last_xid = 79;
	sample_replicas(m, 1, WHOLE_SEAT);
	(void)sample_use(m, &(struct sample_use_row){ "research", "protein-fold-9", "fold",
				    .memory_mib = 0, .received = 0, .allocated_s = 14 * HOUR });
	nothing_known(m);
	sample_device_end(m, 0);
	device->memory_known = device->reserved_known = device->busy_known = false;
	device->busy = VIEW_NONE;
	for (uint32_t i = g->n_points - 25; g->points && i < g->n_points; i++) {
		g->points[i].busy = VIEW_NONE;
		g->points[i].memory_used = UINT64_MAX;
	}
}

static void gpu_idle(struct sample_maker *m)
{
	(void)sample_gpu(m, H100, H100_BYTES);
	(void)sample_device_of_gpu(m, VIEW_EXCLUSIVE, "nvidia.com/gpu");
	sample_replicas(m, 1, WHOLE_SEAT);
	sample_device_end(m, 0);
}

static void make_mixed_node(struct sample_maker *m)
{
	m->v->n_warnings = 1;
	m->v->warnings[0] =
		"sharing.slices: profile 'nvidia.com/gpu.huge' is offered nowhere on this node";
	m->v->config_error =
		"/etc/gpuslice/config.yaml:14:9: weight: expected a number from 1 to 1000, found '0'";
	gpu_time_slicing(m);
	gpu_mps(m);
	gpu_slices(m);
	gpu_mig_h100(m);
	gpu_mig_a100(m);
	gpu_whole(m);
	gpu_lost(m);
	gpu_idle(m);
}

/* --- sixteen --- */

static void shared_gpu(struct sample_maker *m, uint32_t n)
{
	uint32_t busy = 0;

	(void)sample_gpu(m, "NVIDIA H200", 143771ULL << 20);
	(void)sample_device_of_gpu(m, VIEW_TIME_SLICING, "nvidia.com/gpu");
	sample_replicas(m, 7, &(struct sample_replica){ .share = VIEW_MILLION / 7 });
	for (uint32_t i = 0; i < (n * 3 + 1) % 8; i++) {
		const char *pod = view_printf(m->v, "api-%02u-%u", n, i);

		(void)sample_use(m,
			&(struct sample_use_row){ "team-a", pod, "main",
				.memory_mib = 2048 * (i + 1), .received = 20000 * (i + 1),
				.allocated_s = (i + 1) * HOUR });
		busy += 20000 * (i + 1);
	}
	sample_device_end(m, busy);
}

static void make_sixteen_gpu_node(struct sample_maker *m)
{
	struct view_gpu *g;
	struct view_device *device;

	m->v->config_sharing = "time-slicing";
	set_sample_price(m, 2500000000, 16, "option");
	for (uint32_t i = 0; i < 14; i++)
		shared_gpu(m, i);
	g = sample_gpu(m, "NVIDIA H200", 143771ULL << 20);
	g->mig_enabled = true;
	g = sample_gpu(m, "NVIDIA H200", 143771ULL << 20);
	g->mig_pending = true;
	g->refused = "MIG strategy 'single': this GPU is not in MIG mode and others are";
	device = sample_device_of_gpu(m, VIEW_EXCLUSIVE, "");
	device->refused = g->refused;
	sample_device_end(m, 0);
	m->v->other_cost_nano = 180000000000;
	m->v->cost_nano += m->v->other_cost_nano;
}

/* Clears what a node without the kubelet, prices, GPM and NUMA does not know. */
static void clear_unknown_figures(struct sample_maker *m)
{
	struct view *v = m->v;

	v->instance_type = v->region = "";
	v->config_error = "";
	v->n_warnings = 0;
	for (uint32_t i = 0; i < v->n_gpus; i++) {
		v->gpus[i].numa_node = -1;
		v->gpus[i].minor = VIEW_NONE;
		v->gpus[i].recovery = "";
	}
	for (uint32_t i = 0; i < v->n_devices; i++)
		v->devices[i].placed = false;
}

void sample_node(struct sample_maker *m, enum view_sample_kind kind)
{
	switch (kind) {
	case VIEW_SAMPLE_EMPTY:
		make_empty_node(m);
		break;
	case VIEW_SAMPLE_ONE:
		make_single_gpu_node(m);
		break;
	case VIEW_SAMPLE_MIXED:
		set_sample_price(m, 6880000000, 8, "catalogue");
		make_mixed_node(m);
		break;
	case VIEW_SAMPLE_UNPRICED:
		make_mixed_node(m);
		clear_unknown_figures(m);
		break;
	case VIEW_SAMPLE_SIXTEEN:
		make_sixteen_gpu_node(m);
		break;
	case VIEW_SAMPLE_COUNT_:
		break;
	}
}
