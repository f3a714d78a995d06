/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/cli/status/internal.h"
#include "tools/cli/status/view.h"

#define EVIL "\\u001b[2J"

#define HEAD                                                                                 \
	"{\"config\":{\"file\":\"/etc/c.yaml\",\"since\":\"2026-01-01T00:00:00.000Z\","      \
	"\"generation\":2,\"sharing\":\"time-slicing\",\"warnings\":[\"w1\"],\"lastError\":" \
	"{\"message\":\"c.yaml:3:1: bad\",\"at\":\"2026-01-01T00:00:01.000Z\"}},"            \
	"\"nvml\":{\"state\":\"up\",\"driverVersion\":\"580.1\",\"cudaVersion\":\"13.0\"},"

static const char full[] = HEAD
	"\"gpus\":[{\"index\":0,\"uuid\":\"GPU-a\",\"name\":\"Tesla V100\",\"memoryTotalBytes\":"
	"17179869184,\"numaNode\":1,\"health\":\"unhealthy\",\"reason\":\"XID 79\",\"xids\":3}],"
	"\"resources\":[{\"name\":\"nvidia.com/gpu\",\"sharing\":\"time-slicing\",\"replicas\":2,"
	"\"capacity\":2,\"allocatable\":0,\"used\":1,\"state\":\"registered\",\"reason\":\"\","
	"\"slices\":[{\"id\":\"GPU-a::0\",\"gpu\":0,\"healthy\":false,\"holder\":null},"
	"{\"id\":\"GPU-a::1\",\"gpu\":0,\"healthy\":false,\"holder\":{\"namespace\":\"ns\","
	"\"pod\":\"p\",\"container\":\"c\"}}]}],"
	"\"holders\":{\"known\":true,\"error\":null},\"notes\":[\"n1\"]}";

static void status_view__shows_the_state_of_the_node(void **state)
{
	static const char *const wanted[] = { "580.1, CUDA 13.0", "/etc/c.yaml, in force since",
		"generation 2", "REFUSED", "c.yaml:3:1: bad", "Tesla V100", "16384 MiB",
		"XID 79", "nvidia.com/gpu", "registered", "GPU-a::0", "free", "ns/p (c)", "n1",
		"w1" };
	const struct status_view_options options = { .slices = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, full, sizeof(full) - 1, &options, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		if (!strstr(buf_str(&b), wanted[i]))
			fail_msg("'%s' is missing in:\n%s", wanted[i], buf_str(&b));
	}
	assert_null(strchr(buf_str(&b), '\033'));
}

/* A device of a pod that began before the GPUs were divided. */
#define EARLIER(pod)                                                               \
	"{\"resource\":\"nvidia.com/gpu\",\"id\":\"GPU-a\",\"gpu\":3,\"holder\":{" \
	"\"namespace\":\"ns\",\"pod\":\"" pod "\",\"container\":\"c\"}}"

static void status_view__names_pods_with_devices_that_are_no_longer_offered(void **state)
{
	static const struct {
		const char *list, *line;
		bool slices, row;
	} rows[] = {
		{ "", NULL, true, false },
		{ EARLIER("p1"),
			"\nEarlier   1 device of an earlier config is still held: ns/p1\n",
			true, true },
		{ EARLIER("p1"), "still held: ns/p1\n", false, false },
		{ EARLIER("p1") "," EARLIER("p\\u001b"),
			"2 devices of an earlier config are still held: ns/p1, ns/p?\n", true,
			true },
		{ EARLIER("p1") "," EARLIER("p2") "," EARLIER("p3") "," EARLIER(
			  "p4") "," EARLIER("p5"),
			"5 devices of an earlier config are still held: ns/p1, ns/p2, ns/p3, ns/p4 "
			"and 1 more\n",
			true, true },
		/* one pod with several devices, also interleaved with another */
		{ EARLIER("p1") "," EARLIER("p2") "," EARLIER("p1"),
			"3 devices of an earlier config are still held: ns/p1, ns/p2\n", true,
			true },
		{ EARLIER("p1") "," EARLIER("p1") "," EARLIER("p2") "," EARLIER(
			  "p3") "," EARLIER("p4") "," EARLIER("p5") "," EARLIER("p6"),
			"7 devices of an earlier config are still held: ns/p1, ns/p2, ns/p3, ns/p4 "
			"and 2 more\n",
			true, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct status_view_options options = { .slices = rows[i].slices };
		CLEANUP(buf_fini) struct buf json = BUF_INIT(1 << 16);
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
		struct error err = ERROR_INIT;

		buf_printf(&json, HEAD "\"gpus\":[],\"resources\":[],\"earlier\":[%s]}",
			rows[i].list);
		assert_ok(status_view(&b, buf_str(&json), json.len, &options, &err), &err);
		if (rows[i].line && !strstr(buf_str(&b), rows[i].line))
			fail_msg("row %zu: '%s' is missing in:\n%s", i, rows[i].line,
				buf_str(&b));
		assert_int_equal(strstr(buf_str(&b), "Earlier") != NULL, rows[i].line != NULL);
		assert_int_equal(strstr(buf_str(&b), "nvidia.com/gpu  3    GPU-a  not offered  "
						     "ns/p1 (c)\n") != NULL,
			rows[i].row);
	}
}

/* A GPU with three slices: one healthy and allocated twice, one with an XID, one refused. */
#define MIG(index, health, reason, refused, holders)                                      \
	"{\"index\":\"0:" #index "\",\"uuid\":\"MIG-" #index "\",\"profile\":\"1g.5gb\"," \
	"\"memoryBytes\":5100273664,\"health\":\"" health "\",\"reason\":\"" reason       \
	"\",\"refused\":\"" refused "\",\"xids\":" #index ",\"holders\":" holders "}"

#define POD(pod) "{\"namespace\":\"ns\",\"pod\":\"" pod "\",\"container\":\"c\"}"

static const char partitioned_status[] = HEAD
	"\"gpus\":[{\"index\":0,\"uuid\":\"GPU-a\",\"name\":\"A100\",\"mig\":\"on\",\"migPending\":false,"
	"\"health\":\"healthy\",\"refused\":\"\",\"xids\":0,\"migDevices\":[" MIG(0, "healthy",
		"", "", "[" POD("p") "," POD("q") "]") "," MIG(1, "unhealthy", "XID 48",
		"other type", "[" POD("r") "]") "," MIG(2, "healthy", "", "other\\u001b type",
		"null") "," MIG(3, "healthy", "", "",
		"[]") "]},"
		      "{\"index\":1,\"name\":\"A100\",\"mig\":\"off\",\"migPending\":true,\"health\":\"healthy\",\"xids\":null,"
		      "\"refused\":\"MIG is off\"}],"
		      "\"resources\":[{\"name\":\"nvidia.com/gpu\",\"state\":\"registered\",\"slices\":["
		      "{\"id\":\"MIG-0\",\"gpu\":0,\"mig\":\"0:0\",\"healthy\":true,\"holder\":null}]}],"
		      "\"earlier\":[{\"resource\":\"nvidia.com/gpu\",\"id\":\"MIG-9\",\"gpu\":null,\"holder\":" POD(
			      "s") "}],\"holders\":{\"known\":true}}";

/* The list of pods is missing: no slice is known to be free. */
static void status_view__shows_free_slices_as_unknown_without_the_pod_list(void **state)
{
	static const char unheld[] = HEAD
		"\"gpus\":[],\"resources\":[{\"name\":\"nvidia.com/gpu\",\"state\":\"registered\","
		"\"used\":null,\"slices\":[{\"id\":\"GPU-a::0\",\"gpu\":0,\"healthy\":true,\"holder\":null}]}],"
		"\"holders\":{\"known\":false,\"error\":{\"message\":\"no socket\"}}}";
	const struct status_view_options options = { .slices = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, unheld, sizeof(unheld) - 1, &options, &err), &err);
	assert_non_null(strstr(buf_str(&b), "GPU-a::0  healthy  ?"));
	assert_null(strstr(buf_str(&b), "free"));
}

/* No cell is blank where a device has something that the agent does not know. */
static void status_view__has_a_word_for_what_is_unknown(void **state)
{
	static const char json[] = HEAD
		"\"gpus\":[{\"index\":0,\"health\":\"healthy\",\"migDevices\":[{\"xids\":null}]},"
		"{\"index\":1}],\"resources\":[]}";
	static const char *const wanted[] = {
		"\n1    -     -       -     unknown  -     -     \n",
		"\n-    -        -       unknown  -     -     ?        \n",
	};
	const struct status_view_options options = { .slices = false };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, json, sizeof(json) - 1, &options, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (!strstr(buf_str(&b), wanted[i]))
			fail_msg("expected '%s' in:\n%s", wanted[i], buf_str(&b));
}

static void status_view__shows_mig_devices(void **state)
{
	static const char *const wanted[] = {
		"\n0    A100 (MIG)                            -       -     healthy    0     GPU-a  \n",
		"\n1    A100 (MIG mode changes with a reset)  -       -     unhealthy  -     -      MIG is off\n",
		"\nMIG  PROFILE  MEMORY    HEALTH     XIDS  UUID   HELD BY              REASON\n",
		"\n0:0  1g.5gb   4864 MiB  healthy    0     MIG-0  ns/p (c) and 1 more  \n",
		"\n0:1  1g.5gb   4864 MiB  unhealthy  1     MIG-1  ns/r (c)             XID 48\n",
		"\n0:2  1g.5gb   4864 MiB  unhealthy  2     MIG-2  ?                    other? type\n",
		"\n0:3  1g.5gb   4864 MiB  healthy    3     MIG-3  -                    \n",
		"\nnvidia.com/gpu  0:0  MIG-0  healthy  free\n",
		"\nnvidia.com/gpu  -    MIG-9  not offered  ns/s (c)\n",
	};
	const struct status_view_options options = { .slices = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, partitioned_status, sizeof(partitioned_status) - 1, &options,
			  &err),
		&err);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		if (!strstr(buf_str(&b), wanted[i]))
			fail_msg("'%s' is missing in:\n%s", wanted[i], buf_str(&b));
	}
}

static void status_view__shows_the_state_of_the_mig_manager(void **state)
{
	static const struct {
		const char *mig, *text; /* NULL: not a word */
	} rows[] = {
		{ "{\"enabled\":false}", NULL },
		{ "{\"enabled\":true,\"config\":null,\"waiting\":\"\",\"phase\":\"rest\"}",
			NULL },
		{ "{\"config\":null,\"waiting\":\"the API server\"}",
			"MIG       waiting: the API server\n" },
		{ "{\"config\":\"a\",\"state\":\"success\",\"phase\":\"rest\",\"reason\":\"r\"}",
			"MIG       a, success\n" },
		{ "{\"config\":\"a\",\"state\":\"\",\"phase\":\"planning\"}",
			"MIG       a, not tried yet: planning\n" },
		{ "{\"config\":\"a\",\"state\":\"pending\",\"phase\":\"applying\",\"step\":\"GPU 0: x\"}",
			"MIG       a, pending: applying, GPU 0: x\n" },
		{ "{\"config\":\"a\",\"state\":\"failed\",\"phase\":\"rest\",\"reason\":\"a: no\\u001b\"}",
			"MIG       a, failed\n          a: no?\n" },
	};
	const struct status_view_options options = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20), json = BUF_INIT(1 << 16);

		buf_printf(&json, HEAD "\"gpus\":[],\"resources\":[],\"mig\":%s}", rows[i].mig);
		assert_ok(status_view(&b, buf_str(&json), json.len, &options, &err), &err);
		if (rows[i].text && !strstr(buf_str(&b), rows[i].text))
			fail_msg("row %zu: '%s' is missing in:\n%s", i, rows[i].text,
				buf_str(&b));
		assert_int_equal(strstr(buf_str(&b), "MIG  ") != NULL, rows[i].text != NULL);
	}
}

/* One slice over its limit, one with a process past the libraries on a MIG device. */
#define SLICE(id, gpus, processes, unhooked, holder)                       \
	"{\"id\":\"" id "\",\"class\":\"latency\",\"gpus\":[" gpus         \
	"],\"processes\":[" processes "],\"unhookedProcesses\":[" unhooked \
	"],\"holder\":" holder "}"
#define PROCESS(pid, name, index)                                            \
	"{\"pid\":" pid ",\"name\":\"" name "\",\"gpus\":[{\"index\":" index \
	",\"usedBytes\":1073741824,\"peakBytes\":2147483648}]}"

static const char walls[] = HEAD
	"\"gpus\":[],\"resources\":[],\"slices\":{\"arbiter\":{\"state\":\"up\",\"reason\":\"\"},"
	"\"list\":[" SLICE("0123456789abcdef",
		"{\"index\":0,\"limitBytes\":1073741824,\"usedBytes\":2147483648,"
		"\"peakBytes\":3221225472,\"over\":true,\"weight\":4,\"capMillionths\":125000,\"time\":{\"chargedNs\":12340000000}}",
		PROCESS("4711", "py\\u001bthon", "0"), "",
		POD("p")) "," SLICE("fedcba9876543210",
		"{\"index\":\"1:0\",\"limitBytes\":null,\"usedBytes\":null,\"peakBytes\":null}",
		"", PROCESS("4712", "static", "\"1:0\""), "null") "]}}";

static void status_view__shows_a_demoted_slice_of_class_latency(void **state)
{
	static const char text[] = HEAD
		"\"gpus\":[],\"resources\":[],\"slices\":{\"arbiter\":{\"state\":\"up\",\"reason\":\"\"},"
		"\"list\":[" SLICE("0123456789abcdef",
			"{\"index\":0,\"limitBytes\":null,\"weight\":4,\"demoted\":true}", "",
			"", POD("p")) "]}}";
	const struct status_view_options options = { 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, text, sizeof(text) - 1, &options, &err), &err);
	assert_non_null(strstr(buf_str(&b), "beyond its share: takes turns now\n"));
}

static void status_view__shows_why_quanta_ended(void **state)
{
	static const char text[] = HEAD
		"\"gpus\":[],\"resources\":[],\"slices\":{\"arbiter\":{\"state\":\"up\",\"reason\":\"\"},"
		"\"list\":[" SLICE("0123456789abcdef",
			"{\"index\":3,\"limitBytes\":null,\"weight\":4,\"time\":{\"turns\":60},"
			"\"quantumEnds\":{\"expired\":31,\"renewed\":12,\"idle\":7,\"cap\":0,"
			"\"interrupted\":4,\"gang\":3,\"closed\":2}}",
			"", "", POD("p")) "," SLICE("fedcba9876543210",
			"{\"index\":\"0:1\",\"limitBytes\":null,\"quantumEnds\":null}", "", "",
			POD("q")) "]}}";
	static const char table[] =
		"\nSLICE     GPU  QUANTA  EXPIRED  RENEWED  IDLE  CAP  INTERRUPTED  OTHER\n"
		"01234567  3    60      31       12       7     0    4            5\n";
	struct status_view_options options = { .slices = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, text, sizeof(text) - 1, &options, &err), &err);
	if (!strstr(buf_str(&b), table))
		fail_msg("'%s' is missing in:\n%s", table, buf_str(&b));
	assert_null(strstr(strstr(buf_str(&b), table) + sizeof(table) - 1, "fedcba98"));
	/* The table of slices appears only on request. */
	options.slices = false;
	buf_clear(&b);
	assert_ok(status_view(&b, text, sizeof(text) - 1, &options, &err), &err);
	assert_null(strstr(buf_str(&b), "QUANTA"));
}

/* A stuck slice has two processes. The view names the one whose work does not end. */
static void status_view__names_the_stuck_process(void **state)
{
#define AT(pid, name, stuck)                                                             \
	"{\"pid\":" pid ",\"name\":\"" name "\",\"gpus\":[{\"index\":0,\"stuck\":" stuck \
	",\"usedBytes\":0,\"peakBytes\":0}]}"
	static const char text[] = HEAD
		"\"gpus\":[],\"resources\":[],\"slices\":{\"arbiter\":{\"state\":\"up\",\"reason\":\"\"},"
		"\"list\":[" SLICE("0123456789abcdef",
			"{\"index\":0,\"limitBytes\":null,\"weight\":4,\"stuck\":true}",
			AT("4711", "hangs", "true") "," AT("4712", "works", "false"), "",
			POD("p")) "]}}";
	const struct status_view_options options = { 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, text, sizeof(text) - 1, &options, &err), &err);
	assert_non_null(
		strstr(buf_str(&b), "  ns/p (c)            STUCK: its work does not end\n"));
	assert_non_null(
		strstr(buf_str(&b), "  hangs (pid 4711)  STUCK: its work does not end\n"));
	assert_non_null(strstr(buf_str(&b), "  works (pid 4712)  \n"));
}

static void status_view__shows_slices_and_their_processes(void **state)
{
	static const char *const wanted[] = {
		"\nSLICE     GPU  SHARE                             TIME    LIMIT     USED      PEAK      HELD "
		"BY, PROCESSES    NOTE\n",
		"\n01234567  0    weight 4, at most 12.5%, latency  12.3 s  1024 MiB  2048 MiB  3072 MiB  ns/p "
		"(c)              OVER ITS LIMIT\n",
		"\n          0                                                        1024 MiB  2048 MiB    "
		"py?thon (pid 4711)  \n",
		"\nfedcba98  1:0  -                                 -       none      ?         ?         -      "
		"               has processes past the libraries\n",
	};
	static const struct {
		const char *slices, *line; /* NULL: not a word */
	} rows[] = {
		{ "{\"wanted\":false,\"arbiter\":{\"state\":\"off\",\"reason\":\"\"},\"list\":[]}",
			NULL },
		{ "{\"arbiter\":{\"state\":\"up\",\"reason\":\"\"},\"list\":[]}", NULL },
		{ "{\"arbiter\":{\"state\":\"away\",\"reason\":\"no\\u001b\"}}",
			"\nArbiter   away, slices keep what they have: no?\n" },
		{ "{\"error\":{\"message\":\"no library\"}}",
			"\nSlices    cannot be given: no library\n" },
		{ "{\"broken\":[\"x: bad\"]}", "\nBroken    x: bad\n" },
	};
	const struct status_view_options options = { 0 };
	char timeless[sizeof(walls)];
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	memcpy(timeless, walls, sizeof(walls));
	assert_ok(status_view(&b, walls, sizeof(walls) - 1, &options, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		if (!strstr(buf_str(&b), wanted[i]))
			fail_msg("'%s' is missing in:\n%s", wanted[i], buf_str(&b));
	}
	/* The table has no column for time where no slice divides the time. */
	*strstr(timeless, "weight") = 'W';
	buf_clear(&b);
	assert_ok(status_view(&b, timeless, sizeof(timeless) - 1, &options, &err), &err);
	assert_non_null(strstr(buf_str(&b),
		"\nSLICE     GPU  LIMIT     USED      PEAK      HELD BY, PROCESSES    NOTE\n"));
	assert_non_null(strstr(buf_str(&b),
		"\n01234567  0    1024 MiB  2048 MiB  3072 MiB  ns/p (c)              OVER ITS LIMIT\n"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf json = BUF_INIT(1 << 16), text = BUF_INIT(1 << 20);

		buf_printf(&json, HEAD "\"gpus\":[],\"resources\":[],\"slices\":%s}",
			rows[i].slices);
		assert_ok(status_view(&text, buf_str(&json), json.len, &options, &err), &err);
		if (rows[i].line && !strstr(buf_str(&text), rows[i].line))
			fail_msg("row %zu: '%s' is missing in:\n%s", i, rows[i].line,
				buf_str(&text));
		if (!rows[i].line)
			assert_null(strstr(buf_str(&text), "rbiter"));
		assert_null(strstr(buf_str(&text), "LIMIT"));
	}
}

static void status_view__shows_the_slices_of_gpus(void **state)
{
	static const char text[] = HEAD
		"\"resources\":[],\"gpus\":[{\"index\":0,\"profiles\":[{\"resource\":\"nvidia.com/"
		"gpu.small\",\"slices\":3,\"used\":1,\"memoryBytes\":2147483648,\"weight\":1,"
		"\"capMillionths\":null,\"compute\":\"fair\",\"class\":\"latency\"}]},{\"index\":1,"
		"\"migDevices\":[{\"index\":\"1:0\",\"profiles\":[{\"resource\":\"x\\u001b\","
		"\"slices\":1,\"used\":null,\"memoryBytes\":null,\"weight\":4,\"capMillionths\":"
		"571428,\"compute\":\"capped\",\"class\":\"batch\"}]}]}]}";
	static const char *const wanted[] = {
		"\nGPU  PROFILE               REPLICAS  USED  MEMORY EACH  WEIGHT  COMPUTE          CLASS\n",
		"\n0    nvidia.com/gpu.small  3         1     2048 MiB     1       fair             latency\n",
		"\n1:0  x?                    1         ?     -            4       capped at 57.1%  batch\n",
	};
	const struct status_view_options options = { 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, text, sizeof(text) - 1, &options, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (!strstr(buf_str(&b), wanted[i]))
			fail_msg("'%s' is missing in:\n%s", wanted[i], buf_str(&b));
}

static void status_view__shows_mps_daemons(void **state)
{
	static const char json[] =
		"{\"resources\":[],\"gpus\":[{\"index\":3,\"uuid\":\"GPU-a\"},{\"index\":4,"
		"\"migDevices\":[{\"index\":\"4:1\",\"uuid\":\"MIG-b\"}]}],\"mps\":["
		"{\"key\":\"GPU-a\",\"devices\":[\"GPU-a\"],\"state\":\"ready\",\"why\":\"\","
		"\"usable\":true,\"memoryLimitsMib\":[3840],\"activeThreadPercentage\":25,"
		"\"clients\":[{},{}],\"faults\":1,\"daemonDeaths\":2,\"serverDeaths\":3},"
		"{\"key\":\"MIG-b\",\"devices\":[\"MIG-b\",\"GPU-x\\u001b\"],\"state\":\"down\","
		"\"why\":\"no\\u001bprogram\",\"usable\":false,\"memoryLimitsMib\":[0]},"
		"{\"key\":\"left\",\"devices\":[],\"clients\":7}]}";
	CLEANUP(buf_fini) struct buf b = BUF_INIT(65536);
	const struct status_view_options o = { .colour = false };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, json, sizeof(json) - 1, &o, &err), &err);
	assert_non_null(strstr(buf_str(&b),
		"3           ready  3840 MiB         25%      2        1       5"));
	assert_non_null(strstr(buf_str(&b), "4:1,GPU-x?  down   -"));
	assert_non_null(strstr(buf_str(&b), "no?program"));
	assert_non_null(strstr(buf_str(&b), "left"));
	assert_null(strchr(buf_str(&b), '\033'));
}

/* The pods of one Deployment differ in the end of their names. */
static void status_format_pod__keeps_the_end_of_a_name(void **state)
{
	char cell[STATUS_CELL_MAX], ns[254], pod[254], container[254], want[STATUS_CELL_MAX];
	json_t *h;

	(void)state;
	h = json_pack("{s:s, s:s, s:s}", "namespace", "team", "pod", "web-7d9f8b6c5d-x9k2p",
		"container", "main");
	status_format_pod(cell, h);
	assert_string_equal(cell, "team/web-7d9f8b6c5d-x9k2p (main)");
	json_decref(h);
	memset(ns, 'n', sizeof(ns));
	memset(pod, 'p', sizeof(pod));
	memset(container, 'c', sizeof(container));
	ns[63] = container[63] = pod[253] = '\0';
	memcpy(pod + 248, "x9k2p", 5);
	h = json_pack("{s:s, s:s, s:s}", "namespace", ns, "pod", pod, "container", container);
	status_format_pod(cell, h);
	(void)snprintf(want, sizeof(want), "%.18s...%.18s/%.33s...%.28sx9k2p (%.14s...%.14s)",
		ns, ns, pod, pod, container, container);
	assert_string_equal(cell, want);
	assert_true(strlen(cell) + sizeof(" and 65535 more") <= STATUS_CELL_MAX);
	json_decref(h);
}

static void status_view__lets_no_control_character_through(void **state)
{
	static const char evil[] =
		"{\"config\":{\"file\":\"" EVIL "\",\"since\":\"" EVIL "\",\"sharing\":\"" EVIL
		"\"},\"nvml\":{},\"gpus\":[{\"name\":\"\\u001b[2Jx\"}],\"resources\":[],"
		"\"holders\":{\"known\":false,\"error\":{\"message\":"
		"\"a\\nb\"}},\"notes\":[\"\\u0007\"]}";
	const struct status_view_options options = { .slices = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(status_view(&b, evil, sizeof(evil) - 1, &options, &err), &err);
	assert_null(strpbrk(buf_str(&b), "\033\007"));
	assert_non_null(strstr(buf_str(&b), "a?b"));
}

static void status_view__refuses_an_invalid_status(void **state)
{
	static const char *const rows[] = { "", "{", "[]", "null", "{}", "{\"gpus\":1}" };
	const struct status_view_options options = { .slices = true };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);

		assert_error(status_view(&b, rows[i], strlen(rows[i]), &options, &err), &err,
			"");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_view__shows_the_state_of_the_node),
		cmocka_unit_test(
			status_view__names_pods_with_devices_that_are_no_longer_offered),
		cmocka_unit_test(
			status_view__shows_free_slices_as_unknown_without_the_pod_list),
		cmocka_unit_test(status_view__has_a_word_for_what_is_unknown),
		cmocka_unit_test(status_view__shows_mig_devices),
		cmocka_unit_test(status_view__shows_the_state_of_the_mig_manager),
		cmocka_unit_test(status_view__shows_why_quanta_ended),
		cmocka_unit_test(status_view__names_the_stuck_process),
		cmocka_unit_test(status_view__shows_slices_and_their_processes),
		cmocka_unit_test(status_view__shows_a_demoted_slice_of_class_latency),
		cmocka_unit_test(status_view__shows_the_slices_of_gpus),
		cmocka_unit_test(status_view__shows_mps_daemons),
		cmocka_unit_test(status_format_pod__keeps_the_end_of_a_name),
		cmocka_unit_test(status_view__lets_no_control_character_through),
		cmocka_unit_test(status_view__refuses_an_invalid_status),
	};

	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
