/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/probe/mig-minors.h"
#include "io/nvml/probe/mig.h"
#include "unit/io/nvml/fake-nvml-env.h"

#include <unistd.h>

#define TWO_GPUS "gpus 2\nmemory 40960\nmigmode 1 1\n"
#define GI       7 /* calls of a probe for a GPU's list: one for each index */
#define KNOWN    3 /* calls for an unchanged device */

static struct nvml nvml;
static char minors_path[PATH_MAX];

static void write_minors(const char *text)
{
	test_write(fake_nvml_dir, MIG_MINORS_PATH, text, strlen(text), 0644);
}

static int set_up(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	fake_nvml_begin();
	(void)snprintf(minors_path, sizeof minors_path, "%s/" MIG_MINORS_PATH, fake_nvml_dir);
	return nvml_open(&nvml, fake_nvml_lib, &err);
}

static int tear_down(void **state)
{
	(void)state;
	nvml_close(&nvml);
	fake_nvml_end();
	return 0;
}

/* One GPU that the test probes again and again, as the worker does. */
struct fixture {
	struct probe probe;
	struct probe_caps caps;
	struct probe_mig keep;
	struct gpu gpu;
	bool good;
	uint32_t calls; /* of the last probe of the MIG devices */
};

static struct fixture *fixture_new(void)
{
	static _Atomic uint64_t crumb;
	static struct fixture f;

	f = (struct fixture){ .probe = { .nvml = &nvml,
				      .sysfs = fake_nvml_dir,
				      .procfs = fake_nvml_dir,
				      .crumb = &crumb } };
	probe_caps_init(&f.caps);
	write_minors("config 1\nmonitor 2\n"
		     "gpu0/gi7/access 3\ngpu0/gi7/ci0/access 4\n"
		     "gpu1/gi1/access 30\ngpu1/gi1/ci0/access 31\n"
		     "gpu1/gi1/ci1/access 32\n"
		     "gpu1/gi7/access 66\ngpu1/gi7/ci0/access 67\n");
	return &f;
}

static void probe_fake_gpu(struct fixture *f, const char *lines)
{
	nvmlDevice_t d;

	fake_nvml(lines);
	probe_gpu(&f->probe, 1, &f->gpu, &d);
	assert_true(f->gpu.mig_enabled);
	probe_caps_forget(&f->caps);
	f->calls = f->probe.count;
	f->good = probe_mig_devices(&f->probe, &f->gpu, d, &f->caps, &f->keep);
	f->calls = f->probe.count - f->calls;
}

static void probe_mig__reads_everything(void **state)
{
	struct fixture *f = fixture_new();
	const struct gpu_mig *m = f->keep.mig;

	(void)state;
	probe_fake_gpu(f, TWO_GPUS "mig 1 2 7 0 19 1\nmig 1 0 1 0 9 2\nmig 1 1 1 1 9 1\n"
				   "mig 0 0 7 0 19 1\n");
	assert_true(f->good);
	assert_int_equal(f->gpu.fault, GPU_OK);
	assert_false(f->gpu.mig_pending);
	assert_int_equal(f->keep.n, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_string_equal(m[i].reason, "");
		assert_int_equal(m[i].gpu, 1);
		assert_int_equal(m[i].index, i);
		assert_true(m[i].has_minors);
	}
	assert_string_equal(m[0].uuid, "MIG-fake-1-1-0");
	assert_string_equal(m[0].profile, "2c.3g.20gb");
	assert_int_equal(m[0].gi, 1);
	assert_int_equal(m[0].gi_minor, 30);
	assert_int_equal(m[0].ci_minor, 31);
	assert_string_equal(m[1].profile, "1c.3g.20gb");
	assert_int_equal(m[1].ci, 1);
	assert_int_equal(m[1].gi_minor, 30);
	assert_int_equal(m[1].ci_minor, 32);
	assert_string_equal(m[2].uuid, "MIG-fake-1-7-0");
	assert_string_equal(m[2].profile, "1g.5gb");
	assert_int_equal(m[2].gi, 7);
	assert_int_equal(m[2].gi_minor, 66);
	assert_int_equal(m[2].memory_mib, 4864);
	assert_int_equal(m[2].multiprocessors, 14);
	assert_int_equal(m[2].gi_slices, 1);
	assert_int_equal(m[2].ci_slices, 1);
	assert_int_equal(m[2].copy, 1);
	assert_int_equal(m[2].ofa, 0);

	probe_fake_gpu(f, "gpus 2\nmigmode 1 0\n");
	assert_true(f->good);
	assert_true(f->gpu.mig_pending);
	assert_int_equal(f->keep.n, 0);
	probe_caps_fini(&f->caps);
}

/* The name is of the profile's number and share of the memory, else NVML's own. */
static void probe_mig__names_profiles(void **state)
{
	static const struct {
		const char *control, *name, *reason;
	} rows[] = {
		{ TWO_GPUS "mig 1 0 7 0 20 1\n", "1g.5gb+me", "" },
		{ TWO_GPUS "mig 1 0 7 0 32 3\n", "3g.20gb+gfx", "" },
		{ TWO_GPUS "mig 1 0 7 0 60 2\n", "2g.11gb+new", "" },
		{ TWO_GPUS "mig 1 0 7 0 60 1\n", "1c.2g.11gb+new", "" },
		/* with more memory in all, the same profile has another name */
		{ "gpus 2\nmemory 81559\nmigmode 1 1\nmig 1 0 7 0 19 1\n", "1g.10gb", "" },
		{ "gpus 2\nmigmode 1 1\nmig 1 0 7 0 19 1\n", "1g.5gb",
			"" }, /* of unknown memory */
		{ TWO_GPUS "mig 1 0 7 0 61 2\n", "", "MIG profile 'new': expected compute" },
		{ TWO_GPUS "mig 1 0 7 0 77 1\n", "", "no GPU instance profile with id 77" },
		{ TWO_GPUS "mig 1 0 7 0 19 0\n", "", "MIG profile '0c.1g.5gb'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture *f = fixture_new();

		probe_fake_gpu(f, rows[i].control);
		assert_true(f->good);
		assert_int_equal(f->keep.n, 1);
		assert_string_equal(f->keep.mig[0].profile, rows[i].name);
		assert_non_null(strstr(f->keep.mig[0].reason, rows[i].reason));
		assert_int_equal(f->keep.mig[0].reason[0] == '\0', rows[i].reason[0] == '\0');
		probe_caps_fini(&f->caps);
	}
}

static void probe_mig__contains_errors(void **state)
{
	static const struct {
		const char *control;
		bool listed;
		enum gpu_fault fault;
		const char *reason; /* of the first device, or of the GPU */
	} rows[] = {
		{ "error nvmlDeviceGetUUID 200 999\n", true, GPU_OK,
			"nvmlDeviceGetUUID: fake" },
		{ "error nvmlDeviceGetAttributes_v2 200 3\n", true, GPU_OK,
			"nvmlDeviceGetAttributes_v2: fake" },
		{ "error nvmlDeviceGetGpuInstanceId 200 3\n", true, GPU_OK,
			"nvmlDeviceGetGpuInstanceId: fake" },
		{ "error nvmlDeviceGetComputeInstanceId 200 4\n", true, GPU_OK,
			"nvmlDeviceGetComputeInstanceId: fake" },
		{ "error nvmlDeviceGetAttributes_v2 200 15\n", false, GPU_FAULT_LOST,
			"nvmlDeviceGetAttributes_v2: GPU is lost" },
		{ "error nvmlDeviceGetMaxMigDeviceCount 1 4\n", false, GPU_FAULT_FIELD,
			"nvmlDeviceGetMaxMigDeviceCount: fake" },
		{ "error nvmlDeviceGetMigDeviceHandleByIndex 1 4\n", false, GPU_FAULT_FIELD,
			"nvmlDeviceGetMigDeviceHandleByIndex: fake" },
		{ "error nvmlDeviceGetMigDeviceHandleByIndex 1 16\n", false, GPU_FAULT_RESET,
			"nvmlDeviceGetMigDeviceHandleByIndex: fake" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture *f = fixture_new();

		(void)snprintf(text, sizeof text, "%smig 1 0 7 0 19 1\nmig 1 1 1 0 9 3\n%s",
			TWO_GPUS, rows[i].control);
		probe_fake_gpu(f, text);
		assert_int_equal(f->good, rows[i].listed);
		assert_int_equal(f->gpu.fault, rows[i].fault);
		assert_int_equal(f->keep.n, rows[i].listed ? 2 : 0);
		if (rows[i].listed) {
			assert_ptr_equal(strstr(f->keep.mig[0].reason, rows[i].reason),
				f->keep.mig[0].reason);
			assert_false(f->keep.mig[0].has_minors);
			assert_string_equal(f->keep.mig[1].reason, ""); /* costs it nothing */
		} else {
			assert_ptr_equal(strstr(f->gpu.reason, rows[i].reason), f->gpu.reason);
		}
		/* as soon as the change is over, the probe succeeds */
		probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\nmig 1 1 1 0 9 3\n");
		assert_true(f->good);
		assert_string_equal(f->keep.mig[0].reason, "");
		assert_string_equal(f->keep.mig[0].profile, "1g.5gb");
		probe_caps_fini(&f->caps);
	}
}

static void probe_mig__needs_the_capabilities(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	write_minors("gpu1/gi7/access 66\ngpu1/gi8/ci0/access 67\n");
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\n");
	assert_false(f->keep.mig[0].has_minors);
	assert_non_null(strstr(f->keep.mig[0].reason,
		"no capabilities of GPU instance 7 and compute instance 0"));
	write_minors("gpu1/gi7/access\n");
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\n");
	assert_non_null(strstr(f->keep.mig[0].reason, "capabilities: line 1: expected a key"));
	assert_int_equal(unlink(minors_path), 0);
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\n");
	assert_non_null(strstr(f->keep.mig[0].reason, "capabilities: "));
	assert_non_null(strstr(f->keep.mig[0].reason, "mig-minors"));
	assert_string_equal(f->keep.mig[0].profile, "1g.5gb");
	write_minors("gpu1/gi7/access 66\ngpu1/gi7/ci0/access 67\n");
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\n");
	assert_string_equal(f->keep.mig[0].reason, "");
	assert_int_equal(f->keep.mig[0].ci_minor, 67);
	probe_fake_gpu(f, TWO_GPUS "error nvmlDeviceGetMinorNumber 1 3\nmig 1 0 7 0 19 1\n");
	assert_string_equal(f->keep.mig[0].reason,
		"capabilities: the minor number of the GPU is not known");
	probe_caps_fini(&f->caps);
}

static void probe_mig__makes_few_calls_when_nothing_changed(void **state)
{
	static const char two[] = TWO_GPUS "mig 1 0 7 0 19 1\nmig 1 1 1 0 19 1\n";
	struct fixture *f = fixture_new();

	(void)state;
	probe_fake_gpu(f, two);
	probe_fake_gpu(f, two);
	assert_int_equal(f->calls, GI + 2 * (KNOWN - 1) + 1); /* and the capability file */
	assert_string_equal(f->keep.mig[1].profile, "1g.5gb");
	assert_int_equal(f->keep.mig[1].gi, 1);

	/* Another profile at the same place has the same UUID. */
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\nmig 1 1 1 0 20 1\n");
	assert_string_equal(f->keep.mig[1].uuid, "MIG-fake-1-1-0");
	assert_string_equal(f->keep.mig[1].profile, "1g.5gb+me");
	/* Another compute instance of the same GPU instance has the same UUID as well. */
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\nmig 1 1 1 0 9 3\n");
	assert_string_equal(f->keep.mig[1].profile, "3g.20gb");
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\nmig 1 1 1 0 9 2\n");
	assert_string_equal(f->keep.mig[1].profile, "2c.3g.20gb");
	/* Only the id of the profile distinguishes these two. */
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 7 0 19 1\nmig 1 1 1 0 32 2\n");
	assert_string_equal(f->keep.mig[1].profile, "2c.3g.20gb+gfx");
	/* The first one was destroyed, and the second has its index. */
	probe_fake_gpu(f, TWO_GPUS "mig 1 0 1 0 32 2\n");
	assert_int_equal(f->keep.n, 1);
	assert_string_equal(f->keep.mig[0].uuid, "MIG-fake-1-1-0");
	assert_int_equal(f->keep.mig[0].gi_minor, 30);
	probe_caps_fini(&f->caps);
}

static bool is_same_list(const struct probe_mig *a, const struct probe_mig *b)
{
	return a->n == b->n && memcmp(a->mig, b->mig, a->n * sizeof a->mig[0]) == 0;
}

/* Each becomes the next one. */
static const char *const layouts[] = {
	"mig 1 0 7 0 19 1\nmig 1 1 1 0 9 3\n",
	"mig 1 0 1 0 9 2\nmig 1 1 1 1 9 1\nmig 1 2 7 0 19 1\n", /* at other indexes */
	"",
	"mig 1 3 7 0 20 1\n",
	"mig 1 0 7 0 19 1\n", /* another profile of the same UUID */
	"mig 1 0 7 0 19 1\nmig 1 1 1 0 9 3\n",
};

static void probe_layout(struct fixture *f, size_t i, unsigned change_after)
{
	char text[512];

	(void)snprintf(text, sizeof text, "%s%sswitch %u\n", TWO_GPUS, layouts[i],
		change_after);
	probe_fake_gpu(f, text);
}

/* The devices change before the first call of a probe, before its second one, and so on. */
static void probe_while_changing(struct fixture *f, size_t from, const struct probe_mig *last,
	const struct probe_mig *old, const struct probe_mig *new)
{
	uint32_t calls;
	unsigned k = 0;

	do {
		char text[512];

		(void)snprintf(text, sizeof text, "%s%s", TWO_GPUS, layouts[from + 1]);
		test_write(fake_nvml_dir, "control.next", text, strlen(text), 0644);
		f->keep = *last;
		calls = f->probe.count;
		probe_layout(f, from, k);
		calls = f->probe.count - calls;
		assert_true(f->good);
		assert_false(f->gpu.mig_unsettled);
		if (is_same_list(&f->keep, old))
			continue;
		assert_true(is_same_list(&f->keep, new));
	} while (k++ < calls);
}

static void probe_mig__reads_devices_before_or_after_a_change(void **state)
{
	static const struct probe_mig nothing;
	struct fixture *f = fixture_new();

	(void)state;
	for (size_t i = 0; i + 1 < ARRAY_LEN(layouts); i++) {
		static struct probe_mig old, new;

		probe_layout(f, i + 1, UINT32_MAX);
		new = f->keep;
		probe_layout(f, i, UINT32_MAX);
		old = f->keep;
		probe_while_changing(f, i, &old, &old, &new);
		probe_while_changing(f, i, &nothing, &old, &new);
	}
	probe_caps_fini(&f->caps);
}

/* A list that changes all the time is not waited for. */
static void probe_mig__keeps_known_devices_while_they_change(void **state)
{
	static struct probe_mig old;
	struct fixture *f = fixture_new();
	char text[512];

	(void)state;
	probe_layout(f, 0, UINT32_MAX);
	old = f->keep;
	for (int first = 0; first < 2; first++) {
		(void)snprintf(text, sizeof text, "%s%sswitch 5\n", TWO_GPUS, layouts[1]);
		test_write(fake_nvml_dir, "control.next", text, strlen(text), 0644);
		if (first)
			f->keep = (struct probe_mig){ .n = 0 };
		probe_layout(f, 3, 5);
		assert_true(f->calls < 500);
		assert_int_equal(f->good, !first);
		assert_int_equal(f->gpu.mig_unsettled, !first);
		if (first)
			assert_string_equal(f->gpu.reason,
				"its MIG devices change each time that they are read");
		else
			assert_true(is_same_list(&f->keep, &old));
	}
	probe_caps_fini(&f->caps);
}

static void mig_minors_fill__accepts_or_refuses_a_whole_list(void **state)
{
	static const struct {
		const char *text;
		const char *error; /* NULL: good */
		uint32_t gi, ci;   /* minors; 0: none */
	} rows[] = {
		{ "", NULL, 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci1/access 67\n", NULL, 66, 67 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci1/access 67", NULL, 66, 67 },
		{ "gpu0/gi7/ci1/access 67\nmonitor 2\ngpu0/gi7/access 66\n", NULL, 66, 67 },
		{ "gpu0/gi7/access 66\n", NULL, 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\n", NULL, 0, 0 },
		{ "gpu1/gi7/access 66\ngpu1/gi7/ci1/access 67\n", NULL, 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi71/ci1/access 67\n", NULL, 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci1x/access 67\n", NULL, 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci1/access/x 67\n", NULL, 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci/access 67\n", NULL, 0, 0 },
		{ "gpu0/gi7/ci4294967297/access 3\ngpu0/gi7/ci1/access 67\n", NULL, 0, 0 },
		{ "gpu0/gi7/access 0\ngpu0/gi7/ci1/access 1048575\n", NULL, 0, 1048575 },
		{ "gpu0/gi7/access 66\n\n", "line 2: ", 0, 0 },
		{ "gpu0/gi7/access 66\ngpu0/gi7/ci1/access 1048576\n", "line 2: ", 0, 0 },
		{ "gpu0/gi7/access -1\n", "line 1: ", 0, 0 },
		{ "gpu0/gi7/access 1 2\n", "line 1: ", 0, 0 },
		{ " 1\n", "line 1: ", 0, 0 },
		{ "x\n", "found 'x'", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct gpu_mig m[2] = { { .gi = 7, .ci = 1, .has_minors = true }, { .gi = 9 } };
		struct error err = ERROR_INIT;
		const char *text = rows[i].text;

		if (rows[i].error)
			assert_error(mig_minors_fill(text, strlen(text), 0, m, 2, &err), &err,
				rows[i].error);
		else
			assert_ok(mig_minors_fill(text, strlen(text), 0, m, 2, &err), &err);
		assert_int_equal(m[0].has_minors, rows[i].ci != 0);
		assert_int_equal(m[0].gi_minor, rows[i].gi);
		assert_int_equal(m[0].ci_minor, rows[i].ci);
		assert_false(m[1].has_minors);
	}
}

/* --- probes --- */

static int feed_mig_msg(struct probe_round *round, union worker_msg *m, enum worker_type type)
{
	struct error err = ERROR_INIT;

	worker_head(&m->head, type);
	m->begin.seq = round->seq; /* in all of them at the same place */
	if (worker_msg_check(m, m->head.len, &err) < 0)
		return -2;
	return probe_round_feed(round, m, &err);
}

static void begin_probe_round(struct probe_round *round, uint32_t n)
{
	union worker_msg m = { .begin = { .n = n } };
	struct worker_probe q;

	probe_round_start(round, 0, &q);
	assert_int_equal(feed_mig_msg(round, &m, WORKER_BEGIN), 0);
}

static void feed_gpu_message(struct probe_round *round, uint32_t index, bool mig,
	enum gpu_fault fault)
{
	union worker_msg m = { .gpu = { .gpu = { .index = index,
						.mig_capable = mig,
						.mig_enabled = mig,
						.fault = fault } } };

	(void)snprintf(m.gpu.gpu.uuid, sizeof m.gpu.gpu.uuid, "GPU-%u", index);
	assert_int_equal(feed_mig_msg(round, &m, WORKER_GPU), 0);
}

static union worker_msg mig_message(uint32_t gpu, uint32_t n)
{
	union worker_msg m = { .mig = { .gpu = gpu, .n = n } };

	for (uint32_t i = 0; i < n && i < GPU_MIG_MAX; i++) {
		struct gpu_mig *d = &m.mig.mig[i];

		*d = (struct gpu_mig){ .gpu = gpu, .index = i, .has_minors = true };
		(void)snprintf(d->uuid, sizeof d->uuid, "MIG-%u-%u", gpu, i);
		(void)snprintf(d->profile, sizeof d->profile, "1g.5gb");
	}
	return m;
}

static int feed_mig_message(struct probe_round *round, uint32_t gpu, uint32_t n)
{
	union worker_msg m = mig_message(gpu, n);

	return feed_mig_msg(round, &m, WORKER_MIG);
}

static int end(struct probe_round *round)
{
	union worker_msg m = { .end = { .seq = 0 } };

	return feed_mig_msg(round, &m, WORKER_END);
}

static void assert_mig(const struct probe_round *round, const char *const *uuids, uint32_t n)
{
	assert_int_equal(round->last->n_mig, n);
	for (uint32_t i = 0; i < n; i++)
		assert_string_equal(round->last->mig[i].uuid, uuids[i]);
}

static void probe_round__keeps_mig_devices_of_an_unhealthy_gpu(void **state)
{
	static const char *const all[] = { "MIG-0-0", "MIG-0-1", "MIG-2-0" };
	static struct probe_round round;

	(void)state;
	begin_probe_round(&round, 3);
	feed_gpu_message(&round, 0, true, GPU_OK);
	assert_int_equal(feed_mig_message(&round, 0, 2), 0);
	feed_gpu_message(&round, 1, false, GPU_OK);
	feed_gpu_message(&round, 2, true, GPU_OK);
	assert_int_equal(feed_mig_message(&round, 2, 1), 0);
	assert_int_equal(end(&round), 1);
	assert_mig(&round, all, 3);
	assert_int_equal(round.last->mig[2].gpu, 2);

	/* The first is lost and does not report its mode; its devices stay, before the others'. */
	begin_probe_round(&round, 3);
	feed_gpu_message(&round, 0, false, GPU_FAULT_LOST);
	feed_gpu_message(&round, 1, false, GPU_OK);
	feed_gpu_message(&round, 2, true, GPU_OK);
	assert_int_equal(feed_mig_message(&round, 2, 1), 0);
	assert_int_equal(end(&round), 1);
	assert_mig(&round, all, 3);
	assert_true(round.last->gpus[0].mig_enabled);

	/* A call hangs: the same. */
	probe_round_mark_stuck(&round, 0, 100, "hangs");
	begin_probe_round(&round, 3);
	feed_gpu_message(&round, 1, false, GPU_OK);
	feed_gpu_message(&round, 2, true, GPU_FAULT_FIELD); /* its list could not be read */
	assert_int_equal(end(&round), 1);
	assert_mig(&round, all, 3);

	/* Empty is not unknown, also on a GPU with another fault. A GPU without MIG is not unknown either. */
	begin_probe_round(&round, 3);
	feed_gpu_message(&round, 1, false, GPU_OK);
	feed_gpu_message(&round, 2, true, GPU_FAULT_FIELD);
	assert_int_equal(feed_mig_message(&round, 2, 0), 0);
	assert_int_equal(end(&round), 1);
	assert_mig(&round, all, 2);
	probe_round_fini(&round);
}

static void probe_round__refuses_mig_devices_out_of_place(void **state)
{
	static struct probe_round round;
	union worker_msg m;

	(void)state;
	begin_probe_round(&round, 2);
	assert_int_equal(feed_mig_message(&round, 0, 1), -1); /* before its GPU */
	feed_gpu_message(&round, 0, false, GPU_OK);
	assert_int_equal(feed_mig_message(&round, 0, 1), -1); /* not in MIG mode */
	assert_int_equal(feed_mig_message(&round, 2, 1), -1); /* not announced */
	feed_gpu_message(&round, 1, true, GPU_OK);
	assert_int_equal(end(&round), -1); /* in MIG mode, and no list */
	assert_int_equal(feed_mig_message(&round, 1, 1), 0);
	assert_int_equal(feed_mig_message(&round, 1, 1), -1); /* twice */
	m = mig_message(1, 1);
	worker_head(&m.head, WORKER_MIG);
	m.mig.seq = round.seq - 1;
	assert_int_equal(probe_round_feed(&round, &m, NULL), -1); /* old */
	assert_int_equal(end(&round), 1);
	probe_round_fini(&round);
}

static void probe_round__refuses_two_mig_devices_with_one_uuid(void **state)
{
	static struct probe_round round;
	union worker_msg m = mig_message(0, 2);

	(void)state;
	memcpy(m.mig.mig[1].uuid, m.mig.mig[0].uuid, sizeof m.mig.mig[0].uuid);
	begin_probe_round(&round, 1);
	feed_gpu_message(&round, 0, true, GPU_OK);
	assert_int_equal(feed_mig_msg(&round, &m, WORKER_MIG), 0);
	assert_int_equal(end(&round), 1);
	assert_string_equal(round.last->mig[0].reason, "");
	assert_string_equal(round.last->mig[1].reason, "it has the UUID of MIG device 0:0");
	assert_string_equal(round.last->mig[1].uuid, "");
	probe_round_fini(&round);
}

static void worker_msg_check__refuses_an_invalid_mig_device(void **state)
{
	static const union worker_msg any = { .head = { .magic = 0 } };
	union worker_msg good = mig_message(1, 2), m;
	struct error err = ERROR_INIT;
	unsigned char *flag = (unsigned char *)&m.mig.mig[1].has_minors;

	(void)state;
#define REFUSED(change, text)                                                     \
	do {                                                                      \
		m = good;                                                         \
		change;                                                           \
		worker_head(&m.head, WORKER_MIG);                                 \
		assert_error(worker_msg_check(&m, m.head.len, &err), &err, text); \
	} while (0)
	m = good;
	worker_head(&m.head, WORKER_MIG);
	assert_ok(worker_msg_check(&m, m.head.len, &err), &err);
	assert_true(sizeof any >= m.head.len);
	REFUSED(m.mig.n = GPU_MIG_MAX + 1, "out of range");
	REFUSED(m.mig.gpu = GPU_NODE_MAX, "out of range");
	REFUSED(m.mig.mig[1].gpu = 0, "out of order");
	REFUSED(m.mig.mig[1].index = 0, "out of order");
	REFUSED(m.mig.mig[1].uuid[0] = '\0', "without UUID");
	REFUSED(m.mig.mig[1].profile[0] = '\0', "without UUID, profile");
	REFUSED(m.mig.mig[1].has_minors = false, "or minors");
	REFUSED(m.mig.mig[1].uuid[0] = '\n', "control characters");
	REFUSED(memset(m.mig.mig[1].reason, 'x', GPU_REASON_MAX), "no end");
	REFUSED(memset(m.mig.mig[1].profile, 'x', GPU_PROFILE_MAX), "no end");
	REFUSED(m.mig.mig[1].gi_minor = MIG_MINOR_MAX + 1, "minor number");
	REFUSED(m.mig.mig[1].ci_minor = UINT32_MAX, "minor number");
	REFUSED(*flag = 2, "neither 0 nor 1");
#undef REFUSED
	m = good; /* the message has the fault of a device, and the members that could be read */
	m.mig.mig[1].uuid[0] = '\0';
	m.mig.mig[1].has_minors = false;
	memcpy(m.mig.mig[1].reason, "x", 2);
	worker_head(&m.head, WORKER_MIG);
	assert_ok(worker_msg_check(&m, m.head.len, &err), &err);
	memset(&m, 0, sizeof(m));
	m.gpu.gpu.uuid[0] = 'A';
	m.gpu.gpu.changing = true;
	worker_head(&m.head, WORKER_GPU);
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "being changed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_mig__reads_everything),
		cmocka_unit_test(probe_mig__names_profiles),
		cmocka_unit_test(probe_mig__contains_errors),
		cmocka_unit_test(probe_mig__needs_the_capabilities),
		cmocka_unit_test(probe_mig__makes_few_calls_when_nothing_changed),
		cmocka_unit_test(probe_mig__reads_devices_before_or_after_a_change),
		cmocka_unit_test(probe_mig__keeps_known_devices_while_they_change),
		cmocka_unit_test(mig_minors_fill__accepts_or_refuses_a_whole_list),
		cmocka_unit_test(probe_round__keeps_mig_devices_of_an_unhealthy_gpu),
		cmocka_unit_test(probe_round__refuses_mig_devices_out_of_place),
		cmocka_unit_test(probe_round__refuses_two_mig_devices_with_one_uuid),
		cmocka_unit_test(worker_msg_check__refuses_an_invalid_mig_device),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
