/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/probe/probe.h"
#include "unit/io/nvml/fake-nvml-env.h"

#include <stdarg.h>

static struct nvml nvml;
static int set_up(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	fake_nvml_begin();
	fake_nvml("gpus 4\n");
	return nvml_open(&nvml, fake_nvml_lib, &err);
}

static int tear_down(void **state)
{
	(void)state;
	nvml_close(&nvml);
	fake_nvml_end();
	return 0;
}

static struct probe new_probe(void)
{
	static _Atomic uint64_t crumb;

	return (struct probe){ .nvml = &nvml, .sysfs = fake_nvml_dir, .crumb = &crumb };
}

PRINTF(2, 3) static void write_file(const char *text, const char *fmt, ...)
{
	char name[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(name, sizeof name, fmt, ap);
	va_end(ap);
	test_write(fake_nvml_dir, name, text, strlen(text), 0644);
}

static void probe_gpu__reads_everything(void **state)
{
	struct probe p = new_probe();
	nvmlDevice_t d;
	struct gpu g;

	(void)state;
	fake_nvml("gpus 4\n");
	write_file("1\n", "bus/pci/devices/0000:a1:1e.0/numa_node");
	probe_gpu(&p, 1, &g, &d);
	assert_non_null(d);
	assert_int_equal(g.fault, GPU_OK);
	assert_string_equal(g.reason, "");
	assert_string_equal(g.uuid, "GPU-fake-1");
	assert_string_equal(g.name, "Fake ?GPU"); /* a control character does not get through */
	assert_string_equal(g.bus_id, "00000000:A1:1E.0");
	assert_int_equal(g.numa_node, 1);
	assert_true(g.has_minor);
	assert_int_equal(g.minor, 1);
	assert_int_equal(g.cc_major, 7);
	assert_int_equal(g.cc_minor, 5);
	assert_int_equal(g.memory_total_bytes, 1000);
	assert_int_equal(g.memory_used_bytes, 100); /* v2: used and reserved */
	assert_true(g.xid_events);
	assert_false(g.mig_capable);
	assert_int_equal(g.recovery,
		GPU_RECOVERY_REBOOT); /* an unsigned short of the driver's */
	assert_int_equal(worker_crumb_unpack(*p.crumb).gpu, 1);
}

static void probe_gpu__reads_each_health_signal_for_itself(void **state)
{
	static const struct {
		int field;
		enum gpu_signal signal;
	} rows[] = {
		{ 145, GPU_SIGNAL_REMAP_FAILED },
		{ 144, GPU_SIGNAL_REMAP_PENDING },
		{ 31, GPU_SIGNAL_PAGES_PENDING },
		{ 4, GPU_SIGNAL_ECC_VOLATILE },
		{ 6, GPU_SIGNAL_ECC_AGGREGATE },
	};
	static const enum gpu_recovery actions[] = { GPU_RECOVERY_NONE, GPU_RECOVERY_RESET_GPU,
		GPU_RECOVERY_REBOOT, GPU_RECOVERY_DRAIN_P2P, GPU_RECOVERY_DRAIN_RESET,
		GPU_RECOVERY_UNKNOWN /* a number of a later driver */ };
	struct probe p = new_probe();
	char control[120];
	nvmlDevice_t d;
	struct gpu g;

	(void)state;
	fake_nvml("gpus 1\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.signals_known, 0); /* refused one by one: unknown, not clear */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t value = 99;

		(void)snprintf(control, sizeof(control),
			"gpus 1\nfigure nvmlDeviceGetFieldValues 0 %d %zu\n", rows[i].field, i);
		fake_nvml(control);
		probe_gpu(&p, 0, &g, &d);
		assert_int_equal(g.signals_known, 1U << rows[i].signal);
		assert_true(gpu_signal(&g, rows[i].signal, &value));
		assert_int_equal(value, i);
		assert_int_equal(g.fault, GPU_OK);
	}
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		(void)snprintf(control, sizeof(control),
			"gpus 1\nfigure nvmlDeviceGetFieldValues 0 230 %zu\n", i);
		fake_nvml(control);
		probe_gpu(&p, 0, &g, &d);
		assert_int_equal(g.recovery, actions[i]);
	}
	fake_nvml("gpus 1\nerror nvmlDeviceGetFieldValues 0 3\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.signals_known, 0);
	assert_int_equal(g.signals_failed, 0); /* it has none of them */
	assert_false(gpu_signal(&g, GPU_SIGNAL_RESET, NULL));
}

/* "Not supported" is an answer; an error is no answer. Both hold for a single field and for the whole call. */
static void probe_gpu__reports_an_unreadable_health_signal_as_unknown(void **state)
{
	struct probe p = new_probe();
	nvmlDevice_t d;
	struct gpu g;

	(void)state;
	fake_nvml("gpus 1\nerror nvmlDeviceGetFieldValues 0 10\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.fault, GPU_OK);
	assert_int_equal(g.signals_known, 0);
	assert_int_equal(g.signals_failed,
		(1U << GPU_SIGNAL_REMAP_FAILED | 1U << GPU_SIGNAL_REMAP_PENDING |
			1U << GPU_SIGNAL_PAGES_PENDING | 1U << GPU_SIGNAL_ECC_VOLATILE |
			1U << GPU_SIGNAL_ECC_AGGREGATE | 1U << GPU_SIGNAL_STORED_));
	fake_nvml(
		"gpus 1\nfigure fieldError 0 145 10\nfigure nvmlDeviceGetFieldValues 0 144 0\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.fault, GPU_OK);
	assert_int_equal(g.signals_known, 1U << GPU_SIGNAL_REMAP_PENDING);
	assert_int_equal(g.signals_failed, 1U << GPU_SIGNAL_REMAP_FAILED);
	/* The older field knows of no reboot: that it is 0 does not clear one. */
	fake_nvml(
		"gpus 1\nfigure fieldError 0 230 999\nfigure nvmlDeviceGetFieldValues 0 226 0\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.recovery, GPU_RECOVERY_UNKNOWN);
	fake_nvml(
		"gpus 1\nfigure fieldError 0 230 999\nfigure nvmlDeviceGetFieldValues 0 226 1\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.recovery, GPU_RECOVERY_RESET_GPU);
	fake_nvml(
		"gpus 1\nfigure fieldError 0 230 3\nfigure nvmlDeviceGetFieldValues 0 226 0\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.recovery, GPU_RECOVERY_NONE);
	/* The calls for its fields may be the only ones that report a lost GPU. */
	fake_nvml("gpus 1\nfigure fieldError 0 145 15\n");
	probe_gpu(&p, 0, &g, &d);
	assert_int_equal(g.fault, GPU_FAULT_LOST);
}

static void probe_gpu__contains_errors(void **state)
{
	static const struct {
		const char *control;
		enum gpu_fault fault;
		int code;
		const char *reason;
	} rows[] = {
		{ "error nvmlDeviceGetUUID 1 15\n", GPU_FAULT_LOST, 15,
			"nvmlDeviceGetUUID: GPU is lost" },
		{ "error nvmlDeviceGetHandleByIndex_v2 1 15\n", GPU_FAULT_LOST, 15,
			"nvmlDeviceGetHandleByIndex_v2: GPU is lost" },
		{ "error nvmlDeviceGetName 1 999\n", GPU_FAULT_FIELD, 999,
			"nvmlDeviceGetName: fake text" },
		{ "error nvmlDeviceGetUUID 1 3\n", GPU_FAULT_FIELD, 3,
			"nvmlDeviceGetUUID: fake text" },
		{ "error nvmlDeviceGetMemoryInfo_v2 1 16\n", GPU_FAULT_RESET, 16,
			"nvmlDeviceGetMemoryInfo_v2: fake text" },
		{ "error nvmlDeviceGetFieldValues 1 15\n", GPU_FAULT_LOST, 15,
			"nvmlDeviceGetFieldValues: GPU is lost" },
		{ "error nvmlDeviceGetMigMode 1 999\n", GPU_FAULT_FIELD, 999,
			"nvmlDeviceGetMigMode: fake text" },
		{ "error nvmlDeviceGetMigMode 1 3\n", GPU_OK, 0, "" },
		{ "error nvmlDeviceGetMinorNumber 1 999\n", GPU_OK, 0, "" },
		{ "error nvmlDeviceGetPciInfo_v3 1 999\n", GPU_OK, 0, "" },
		{ "error nvmlDeviceGetFieldValues 1 3\n", GPU_OK, 0, "" },
		{ "error nvmlDeviceGetSupportedEventTypes 1 3\n", GPU_OK, 0, "" },
	};
	struct probe p = new_probe();
	nvmlDevice_t d;
	struct gpu g;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		fake_nvml(rows[i].control);
		probe_gpu(&p, 1, &g, &d);
		assert_int_equal(g.fault, rows[i].fault);
		assert_string_equal(g.reason, rows[i].reason);
		assert_int_equal(g.nvml_code, rows[i].code);
		probe_gpu(&p, 0, &g, &d);
		assert_int_equal(g.fault, GPU_OK);
	}
	fake_nvml("error nvmlDeviceGetMemoryInfo_v2 1 13\n");
	probe_gpu(&p, 1, &g, &d);
	assert_int_equal(g.memory_total_bytes, 1000);
	assert_int_equal(g.memory_used_bytes, 100); /* v1 */
}

static void probe_gpu__reports_unreadable_mig_state_as_unknown(void **state)
{
	static const struct {
		const char *control;
		bool unknown;
	} rows[] = {
		{ "error nvmlDeviceGetMigMode 1 999\n", true },
		{ "error nvmlDeviceGetHandleByIndex_v2 1 15\n", true },
		{ "error nvmlDeviceGetMigMode 1 3\n", false }, /* it has no MIG */
		{ "gpus 2\n", false },
	};
	struct probe p = new_probe();
	nvmlDevice_t d;
	struct gpu g;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		fake_nvml(rows[i].control);
		probe_gpu(&p, 1, &g, &d);
		assert_int_equal(g.mig_unknown, rows[i].unknown);
		assert_false(g.mig_capable && g.mig_unknown);
	}
}

static void probe_gpu__reads_the_pci_class(void **state)
{
	static const struct {
		const char *text;
		uint32_t value;
	} rows[] = {
		{ "0x030200\n", 0x030200 },
		{ "0x0300aF", 0x0300af },
		{ "0x03020\n", 0 },
		{ "0x0302000\n", 0 },
		{ "03020000\n", 0 },
		{ "0x03020g\n", 0 },
		{ "", 0 },
	};
	struct probe p = new_probe();
	nvmlDevice_t d;
	struct gpu g;

	(void)state;
	fake_nvml("gpus 4\n");
	probe_gpu(&p, 2, &g, &d);
	assert_int_equal(g.pci_class, 0); /* no such file */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		write_file(rows[i].text, "bus/pci/devices/0000:a2:1e.0/class");
		probe_gpu(&p, 2, &g, &d);
		assert_int_equal(g.pci_class, rows[i].value);
	}
}

static void probe_gpu__reads_the_fabric_once_attached(void **state)
{
	static const char v2[] = "fabric nvmlDeviceGetGpuFabricInfoV 1";
	static const struct {
		const char *what;
		bool attached;
	} rows[] = {
		{ "3 0 171", true }, { "3 0 0", false }, /* no cluster */
		{ "2 0 171", false },                    /* in progress */
		{ "3 1 171", false },                    /* completed, without success */
	};
	struct probe p = new_probe();
	nvmlDevice_t d;
	char text[128];
	struct gpu g;

	(void)state;
	fake_nvml("gpus 4\n");
	probe_gpu(&p, 1, &g, &d);
	assert_false(g.fabric_attached);
	assert_string_equal(g.cluster_uuid, "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(text, sizeof text, "gpus 4\n%s %s\n", v2, rows[i].what);
		fake_nvml(text);
		probe_gpu(&p, 1, &g, &d);
		assert_int_equal(g.fault, GPU_OK);
		assert_int_equal(g.fabric_attached, rows[i].attached);
		assert_string_equal(g.cluster_uuid,
			rows[i].attached ? "abababab-abab-abab-abab-abababababab" : "");
		assert_int_equal(g.clique_id, rows[i].attached ? 42 : 0);
	}
	fake_nvml("gpus 4\nfabric nvmlDeviceGetGpuFabricInfo 1 3 0 171\n"); /* the older call */
	probe_gpu(&p, 1, &g, &d);
	assert_true(g.fabric_attached);
	assert_int_equal(g.clique_id, 41);
	fake_nvml("error nvmlDeviceGetGpuFabricInfoV 1 15\n");
	probe_gpu(&p, 1, &g, &d);
	assert_int_equal(g.fault, GPU_FAULT_LOST);
}

static void probe_links__counts_by_the_remote_address(void **state)
{
	struct probe p = new_probe();
	struct gpu gpus[3];
	nvmlDevice_t d[3];
	struct gpu_link links[9];

	(void)state;
	fake_nvml("gpus 3\n");
	for (uint32_t i = 0; i < 3; i++)
		probe_gpu(&p, i, &gpus[i], &d[i]);
	probe_links(&p, 3, gpus, d, links);
	for (uint32_t a = 0; a < 3; a++) {
		for (uint32_t b = 0; b < 3; b++) {
			assert_int_equal(links[a * 3 + b].nvlinks, a == b ? 0 : 2);
			assert_int_equal(links[a * 3 + b].level,
				a == b ? GPU_LEVEL_UNKNOWN : GPU_LEVEL_SAME_CPU);
		}
	}
	d[1] = NULL;
	fake_nvml("gpus 3\nerror nvmlDeviceGetTopologyCommonAncestor 0 3\n");
	probe_links(&p, 3, gpus, d, links);
	assert_int_equal(links[0 * 3 + 2].level, GPU_LEVEL_UNKNOWN);
	assert_int_equal(links[0 * 3 + 2].nvlinks, 2);
	assert_int_equal(links[0 * 3 + 1].level, GPU_LEVEL_UNKNOWN);
}

static void probe_p2p__probes_each_pair_with_handles(void **state)
{
	struct probe p = new_probe();
	struct gpu gpus[3];
	nvmlDevice_t d[3];
	struct gpu_link links[9] = { { .level = GPU_LEVEL_SAME_CPU } };

	(void)state;
	fake_nvml("gpus 3\n");
	for (uint32_t i = 0; i < 3; i++)
		probe_gpu(&p, i, &gpus[i], &d[i]);
	probe_p2p(&p, 3, gpus, d, links);
	for (uint32_t a = 0; a < 3; a++)
		for (uint32_t b = 0; b < 3; b++)
			assert_int_equal(links[a * 3 + b].p2p,
				a == b       ? 0
				: b == a + 1 ? 1 + GPU_P2P_OK
					     : 1 + GPU_P2P_NOT_SUPPORTED);
	assert_int_equal(links[0].level, GPU_LEVEL_SAME_CPU);
	memset(links, 0, sizeof links);
	d[1] = NULL;
	fake_nvml("gpus 3\nerror nvmlDeviceGetP2PStatus 2 3\n");
	probe_p2p(&p, 3, gpus, d, links);
	assert_int_equal(links[0 * 3 + 1].p2p, 0);
	assert_int_equal(links[0 * 3 + 2].p2p, 1 + GPU_P2P_NOT_SUPPORTED);
	assert_int_equal(links[2 * 3 + 0].p2p, 1 + GPU_P2P_UNKNOWN);
}

static void probe_bound_gpus__changes_with_the_driver(void **state)
{
	struct probe p = new_probe();
	uint64_t none = probe_bound_gpus(&p), one, two;

	(void)state;
	write_file("", "bus/pci/drivers/nvidia/new_id");
	assert_int_equal(probe_bound_gpus(&p), none);
	write_file("", "bus/pci/drivers/nvidia/0000:00:1e.0");
	one = probe_bound_gpus(&p);
	assert_int_not_equal(one, none);
	write_file("", "bus/pci/drivers/nvidia/0000:00:1f.0");
	two = probe_bound_gpus(&p);
	assert_int_not_equal(two, one);
	assert_int_equal(probe_bound_gpus(&p), two);
}

/* --- probes --- */

static int feed_message(struct probe_round *round, union worker_msg *m, enum worker_type type,
	struct error *err)
{
	worker_head(&m->head, type);
	m->begin.seq = round->seq; /* in all four at the same place */
	if (worker_msg_check(m, m->head.len, err) < 0)
		return -1;
	return probe_round_feed(round, m, err);
}

static int feed_begin(struct probe_round *round, uint32_t n)
{
	struct error err = ERROR_INIT;
	union worker_msg m = { .begin = { .n = n } };

	return feed_message(round, &m, WORKER_BEGIN, &err);
}

static int feed_gpu(struct probe_round *round, uint32_t index, const char *uuid,
	enum gpu_fault fault)
{
	struct error err = ERROR_INIT;
	union worker_msg m = { .gpu = { .gpu = { .index = index, .fault = fault } } };

	(void)snprintf(m.gpu.gpu.uuid, sizeof m.gpu.gpu.uuid, "%s", uuid);
	if (uuid[0])
		(void)snprintf(m.gpu.gpu.name, sizeof m.gpu.gpu.name, "name of %s", uuid);
	return feed_message(round, &m, WORKER_GPU, &err);
}

static int feed_end(struct probe_round *round)
{
	struct error err = ERROR_INIT;
	union worker_msg m = { .end = { .seq = 0 } };

	return feed_message(round, &m, WORKER_END, &err);
}

static void probe_round__keeps_the_identity_of_an_unhealthy_gpu(void **state)
{
	static struct probe_round round;
	struct worker_probe q;

	(void)state;
	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_end(&round), -1);                 /* one is missing */
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), -1); /* twice */
	assert_int_equal(feed_gpu(&round, 2, "C", GPU_OK), -1); /* not announced */
	assert_int_equal(feed_gpu(&round, 1, "B", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_int_equal(feed_end(&round), -1); /* without a request */

	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "", GPU_FAULT_LOST), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_string_equal(round.last->gpus[1].uuid, "B");
	assert_string_equal(round.last->gpus[1].name, "name of B");
	assert_int_equal(round.last->gpus[1].fault, GPU_FAULT_LOST);
	assert_true(probe_round_needs_session(&round));

	/* B has another index now: index 1 is an unknown GPU. */
	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "B", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "", GPU_FAULT_LOST), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_string_equal(round.last->gpus[1].uuid, "");
	probe_round_fini(&round);
}

static void probe_round__keeps_class_and_fabric_of_an_unhealthy_gpu(void **state)
{
	struct error err = ERROR_INIT;
	union worker_msg m = { .gpu = { .gpu = { .uuid = "A",
						.pci_class = 0x030200,
						.fabric_attached = true,
						.cluster_uuid = "c",
						.clique_id = 7 } } };
	static struct probe_round round;
	struct worker_probe q;

	(void)state;
	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 1), 0);
	assert_int_equal(feed_message(&round, &m, WORKER_GPU, &err), 0);
	assert_int_equal(feed_end(&round), 1);
	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 1), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_FAULT_LOST), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_int_equal(round.last->gpus[0].pci_class, 0x030200);
	assert_true(round.last->gpus[0].fabric_attached);
	assert_string_equal(round.last->gpus[0].cluster_uuid, "c");
	assert_int_equal(round.last->gpus[0].clique_id, 7);
	probe_round_fini(&round);
}

static void probe_round__skips_a_stuck_gpu_until_its_next_date(void **state)
{
	static struct probe_round round;
	struct worker_probe q;

	(void)state;
	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "B", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	probe_round_mark_stuck(&round, 1, 100, "nvmlX did not come back in time");
	assert_int_equal(round.last->gpus[1].fault, GPU_FAULT_STUCK);
	assert_int_equal(probe_round_retry_at(&round), 100);

	probe_round_start(&round, 99, &q);
	assert_int_equal(q.n_skip, 1);
	assert_int_equal(q.skip[0], 1);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 1, "B", GPU_OK), -1); /* it was not to be touched */
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_string_equal(round.last->gpus[1].uuid, "B");
	assert_string_equal(round.last->gpus[1].reason, "nvmlX did not come back in time");

	/* The number of GPUs changes: the index may mean another GPU, so the mark ends early. */
	probe_round_start(&round, 99, &q);
	assert_int_equal(feed_begin(&round, 3), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 2, "C", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_string_equal(round.last->gpus[1].uuid, "");
	assert_int_equal(probe_round_retry_at(&round), 0);

	probe_round_start(&round, 100, &q);
	assert_int_equal(q.n_skip, 0);
	probe_round_fini(&round);
}

static void probe_round__refuses_two_gpus_with_one_uuid(void **state)
{
	static struct probe_round round;
	struct worker_probe q;

	(void)state;
	probe_round_start(&round, 0, &q);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "A", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_int_equal(round.last->gpus[0].fault, GPU_OK);
	assert_int_equal(round.last->gpus[1].fault, GPU_FAULT_FIELD);
	assert_string_equal(round.last->gpus[1].uuid, "");
	probe_round_fini(&round);
}

static void probe_round__keeps_links_that_were_not_requested(void **state)
{
	static struct probe_round round;
	struct worker_probe q;
	struct error err = ERROR_INIT;
	union worker_msg m;

	(void)state;
	probe_round_start(&round, 0, &q);
	assert_int_equal(q.n_known, 0);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "B", GPU_OK), 0);
	for (uint32_t row = 0; row < 2; row++) {
		m = (union worker_msg){ .links = { .row = row, .n = 2 } };
		m.links.links[0] = m.links.links[1] =
			(struct gpu_link){ .level = GPU_LEVEL_HOST_BRIDGE, .nvlinks = 4 };
		m.links.links[row] = (struct gpu_link){ .level = GPU_LEVEL_UNKNOWN };
		assert_int_equal(feed_message(&round, &m, WORKER_LINKS, &err), 0);
		assert_int_equal(feed_message(&round, &m, WORKER_LINKS, &err), -1); /* twice */
	}
	assert_int_equal(feed_end(&round), 1);

	/* The two change places, and a third comes. */
	probe_round_start(&round, 0, &q);
	assert_int_equal(q.n_known, 2);
	assert_int_equal(feed_begin(&round, 3), 0);
	assert_int_equal(feed_gpu(&round, 0, "B", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "C", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 2, "A", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_int_equal(inventory_link(round.last, 0, 2).level, GPU_LEVEL_HOST_BRIDGE);
	assert_int_equal(inventory_link(round.last, 2, 0).nvlinks, 4);
	assert_int_equal(inventory_link(round.last, 0, 1).level, GPU_LEVEL_UNKNOWN);
	probe_round_fini(&round);
}

static void feed_pair(struct probe_round *round, uint8_t p2p)
{
	struct error err = ERROR_INIT;
	union worker_msg m;

	assert_int_equal(feed_begin(round, 2), 0);
	assert_int_equal(feed_gpu(round, 0, "A", GPU_OK), 0);
	assert_int_equal(feed_gpu(round, 1, "B", GPU_OK), 0);
	for (uint32_t row = 0; row < 2; row++) {
		m = (union worker_msg){ .links = { .row = row, .n = 2 } };
		m.links.links[!row] =
			(struct gpu_link){ .level = GPU_LEVEL_SAME_CPU, .p2p = p2p };
		m.links.links[row] = (struct gpu_link){ .level = GPU_LEVEL_UNKNOWN };
		assert_int_equal(feed_message(round, &m, WORKER_LINKS, &err), 0);
	}
	assert_int_equal(feed_end(round), 1);
}

/* Peer-to-peer is requested once, and again only when a caller wants more. */
static void probe_round__requests_p2p_once_it_is_needed(void **state)
{
	static struct probe_round round;
	struct worker_probe q;

	(void)state;
	probe_round_start(&round, 0, &q);
	assert_int_equal(q.p2p, 0);
	feed_pair(&round, 0);
	probe_round_start(&round, 0, &q);
	assert_int_equal(q.n_known, 2);
	round.p2p = true;
	probe_round_start(&round, 0, &q);
	assert_int_equal(q.p2p, 1);
	assert_int_equal(q.n_known, 0);
	feed_pair(&round, 1 + GPU_P2P_UNKNOWN);
	probe_round_start(&round, 0, &q);
	assert_int_equal(q.n_known, 2);
	assert_int_equal(feed_begin(&round, 2), 0);
	assert_int_equal(feed_gpu(&round, 0, "B", GPU_OK), 0);
	assert_int_equal(feed_gpu(&round, 1, "A", GPU_OK), 0);
	assert_int_equal(feed_end(&round), 1);
	assert_int_equal(inventory_link(round.last, 1, 0).p2p, 1 + GPU_P2P_UNKNOWN);
	assert_int_equal(inventory_link(round.last, 1, 0).level, GPU_LEVEL_SAME_CPU);
	probe_round_fini(&round);
}

static void worker_msg_check__refuses_an_invalid_message(void **state)
{
	struct error err = ERROR_INIT;
	union worker_msg good = { .gpu = { .gpu = { .uuid = "A" } } }, m;
	unsigned char *bytes = (unsigned char *)&m;

	(void)state;
	worker_head(&good.head, WORKER_GPU);
	assert_ok(worker_msg_check(&good, good.head.len, &err), &err);
	assert_error(worker_msg_check(&good, 0, &err), &err, "shorter than its head");
	assert_error(worker_msg_check(&good, good.head.len - 1, &err), &err, "wrong length");
	m = good;
	m.head.version++;
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "another build");
	m = good;
	m.head.type = 99;
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "unknown type");
	m = good;
	m.gpu.gpu.uuid[0] = '\0';
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "without UUID");
	m = good;
	memset(m.gpu.gpu.name, 'x', sizeof m.gpu.gpu.name);
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "no end");
	m = good;
	m.gpu.gpu.index = GPU_NODE_MAX;
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "index");
	m = good;
	bytes[offsetof(struct worker_gpu, gpu.mig_enabled)] = 2;
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "neither 0 nor 1");
	m = good;
	bytes[offsetof(struct worker_gpu, gpu.fabric_attached)] = 2;
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "neither 0 nor 1");
	m = good;
	memset(m.gpu.gpu.cluster_uuid, 'x', sizeof m.gpu.gpu.cluster_uuid);
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "no end");
	m = good;
	bytes[offsetof(struct worker_gpu, gpu.fault)] = 99;
	assert_error(worker_msg_check(&m, m.head.len, &err), &err, "does not exist");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_gpu__reads_everything),
		cmocka_unit_test(probe_gpu__reads_each_health_signal_for_itself),
		cmocka_unit_test(probe_gpu__reports_an_unreadable_health_signal_as_unknown),
		cmocka_unit_test(probe_gpu__contains_errors),
		cmocka_unit_test(probe_gpu__reports_unreadable_mig_state_as_unknown),
		cmocka_unit_test(probe_gpu__reads_the_pci_class),
		cmocka_unit_test(probe_gpu__reads_the_fabric_once_attached),
		cmocka_unit_test(probe_links__counts_by_the_remote_address),
		cmocka_unit_test(probe_p2p__probes_each_pair_with_handles),
		cmocka_unit_test(probe_bound_gpus__changes_with_the_driver),
		cmocka_unit_test(probe_round__keeps_the_identity_of_an_unhealthy_gpu),
		cmocka_unit_test(probe_round__keeps_class_and_fabric_of_an_unhealthy_gpu),
		cmocka_unit_test(probe_round__skips_a_stuck_gpu_until_its_next_date),
		cmocka_unit_test(probe_round__refuses_two_gpus_with_one_uuid),
		cmocka_unit_test(probe_round__keeps_links_that_were_not_requested),
		cmocka_unit_test(probe_round__requests_p2p_once_it_is_needed),
		cmocka_unit_test(worker_msg_check__refuses_an_invalid_message),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
