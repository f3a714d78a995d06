/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "unit/node/agent/slices/mounted-slice.h"

#include "abi/slice-dir.h"
#include "node/agent/slices/file.h"
#include "node/agent/slices/checkpoint.h"
#include "node/agent/slices/install.h"
#include "node/agent/slices/life.h"
#include "node/agent/slices/mounts.h"
#include "node/agent/slices/store.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
#define ID  "0123456789abcdef0123456789abcdef"

static const struct slice_plan plan = { .wanted = true,
	.unhooked = UNHOOKED_STOP,
	.n = 2,
	.gpus = { { .uuid = "GPU-a", .memory = 4 * GIB },
		{ .uuid = "GPU-b", .memory = SLICE_NO_LIMIT } } };
static const char *const ids[] = { "GPU-a::0", "GPU-b::1" };

static void join_path(char *ret, const char *dir, const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(ret, PATH_MAX, dir, name, &err), &err);
}

/* --- the file --- */

static void slice_file__reads_back_what_it_writes(void **state)
{
	struct slice_file f = { .devices = STRV_INIT, .plan = plan, .created_s = 1700000000 },
			  back;
	struct error err = ERROR_INIT;
	CLEANUP(freep) char *text = NULL;

	(void)state;
	(void)snprintf(f.id, sizeof(f.id), ID);
	(void)snprintf(f.resource, sizeof(f.resource), "nvidia.com/gpu");
	(void)snprintf(f.lib, sizeof(f.lib), "1.0-abc");
	assert_ok(strv_add(&f.devices, "GPU-a::0", &err), &err);
	text = slice_file_text(&f);
	assert_non_null(text);
	assert_non_null(strstr(text, "\"memory\":4294967296}"));
	assert_non_null(strstr(text, "{\"uuid\":\"GPU-b\"}"));
	assert_ok(slice_file_parse(&back, text, strlen(text), &err), &err);
	assert_string_equal(back.id, ID);
	assert_string_equal(back.resource, "nvidia.com/gpu");
	assert_string_equal(back.lib, "1.0-abc");
	assert_true(slice_plan_equal(&back.plan, &plan));
	assert_true(strv_equal(&back.devices, &f.devices));
	assert_true(back.created_s == 1700000000);
	slice_file_fini(&back);

	/* The file has no member for compute without compute, and the members of abi/slice-dir.h with it. */
	assert_null(strstr(text, "weight"));
	assert_null(strstr(text, "cap"));
	assert_null(strstr(text, "compute"));
	assert_null(strstr(text, "class"));
	free(text);
	f.plan.compute = SLICE_COMPUTE_FAIR_SHARE;
	f.plan.class_ = SLICE_CLASS_LATENCY;
	f.plan.gpus[0].weight = 7;
	f.plan.gpus[0].cap = 250000;
	f.plan.gpus[1].weight = 1;
	text = slice_file_text(&f);
	assert_non_null(text);
	assert_non_null(strstr(text,
		"{\"uuid\":\"GPU-a\",\"memory\":4294967296,\"weight\":7,\"cap\":250000},"
		"{\"uuid\":\"GPU-b\",\"weight\":1}"));
	assert_non_null(strstr(text, "\"compute\":\"turns\",\"class\":\"latency\""));
	assert_ok(slice_file_parse(&back, text, strlen(text), &err), &err);
	assert_true(slice_plan_equal(&back.plan, &f.plan));
	slice_file_fini(&back);
	free(text);
	/* Under MPS the same, to be shown. */
	f.plan.compute = SLICE_COMPUTE_MPS;
	text = slice_file_text(&f);
	assert_non_null(text);
	assert_non_null(strstr(text, "\"weight\":7,\"cap\":250000}"));
	assert_non_null(strstr(text, "\"compute\":\"mps\",\"class\":\"latency\""));
	assert_ok(slice_file_parse(&back, text, strlen(text), &err), &err);
	assert_int_equal(back.plan.compute, SLICE_COMPUTE_MPS);
	assert_true(slice_plan_equal(&back.plan, &f.plan));
	slice_file_fini(&f);
	slice_file_fini(&back);
}

#define FILE_(version, id, devices, gpus)                                                    \
	"{\"version\":" version ",\"id\":\"" id "\",\"resource\":\"r\",\"devices\":" devices \
	",\"gpus\":" gpus ",\"new\":1}"
#define GOOD_GPUS "[{\"uuid\":\"GPU-a\",\"memory\":1}]"

static void slice_file__rejects_invalid_files(void **state)
{
	static const struct {
		const char *text, *why; /* NULL: it is one */
	} rows[] = {
		{ FILE_("1", ID, "[\"d\"]", GOOD_GPUS), NULL },
		{ "", "no JSON" },
		{ "[]", "version" },
		{ FILE_("2", ID, "[\"d\"]", GOOD_GPUS), "version" },
		{ FILE_("1", "../../../../../../../etc/passwd00", "[\"d\"]", GOOD_GPUS), "id" },
		{ FILE_("1", "0123", "[\"d\"]", GOOD_GPUS), "id" },
		{ FILE_("1", ID, "[]", GOOD_GPUS), "devices" },
		{ FILE_("1", ID, "[1]", GOOD_GPUS), "devices" },
		{ FILE_("1", ID, "[\"d\"]", "[]"), "gpus" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a b\"}]"), "gpus[].uuid" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"memory\":0}]"),
			"gpus[].memory" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"memory\":-1}]"),
			"gpus[].memory" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"memory\":null}]"),
			"gpus[].memory" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"weight\":0}]"),
			"gpus[].weight" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"weight\":10001}]"),
			"gpus[].weight" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"cap\":1.5}]"), "gpus[].cap" },
		{ FILE_("1", ID, "[\"d\"]", "[{\"uuid\":\"a\",\"cap\":1000001}]"),
			"gpus[].cap" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct slice_file f;

		if (!rows[i].why) {
			assert_ok(
				slice_file_parse(&f, rows[i].text, strlen(rows[i].text), &err),
				&err);
			slice_file_fini(&f);
		} else {
			assert_error(
				slice_file_parse(&f, rows[i].text, strlen(rows[i].text), &err),
				&err, rows[i].why);
		}
	}
}

/* --- the directory --- */

static void slice_store__finds_its_slices_again(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX], half[PATH_MAX];
	struct slice_store s, again;
	struct error err = ERROR_INIT;
	struct stored_slice *one, *two;
	char first[SLICE_ID_DIGITS + 1];
	struct slice_plan other = plan;
	struct stat st;

	(void)state;
	assert_ok(slice_store_load(&s, dir, &err), &err);
	assert_int_equal(s.n, 0);
	assert_ok(slice_store_add(&s, &one, "r", ids, 2, &plan, "lib", 1, 1000, &err), &err);
	assert_ok(slice_store_add(&s, &two, "r", ids, 1, &plan, "lib", 1, 1000, &err), &err);
	assert_true(slice_id_ok(one->file.id) && strcmp(one->file.id, two->file.id) != 0);
	memcpy(first, one->file.id, sizeof(first));
	assert_ok(slice_store_path(&s, one, path, &err), &err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	join_path(half, path, SLICE_FILE);
	assert_int_equal(stat(half, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);

	other.gpus[0].memory = GIB;
	assert_ok(slice_store_change(&s, one, &other, &err), &err);
	assert_ok(slice_store_remove(&s, two, &err), &err);
	assert_int_equal(s.n, 1);
	slice_store_fini(&s);

	/* Remains of a crash, malformed slices, and files of others. */
	join_path(path, dir, SLICES_DIR);
	join_path(half, path, ".new-" ID);
	assert_int_equal(mkdir(half, 0755), 0);
	join_path(half, path, ID);
	assert_int_equal(mkdir(half, 0755), 0);
	join_path(half, path, "lost+found");
	assert_int_equal(mkdir(half, 0755), 0);
	assert_ok(slice_store_load(&again, dir, &err), &err);
	assert_int_equal(again.n, 1);
	assert_string_equal(again.v[0]->file.id, first);
	assert_true(slice_plan_equal(&again.v[0]->file.plan, &other));
	assert_int_equal(again.broken.n, 1);
	assert_non_null(strstr(again.broken.v[0], ID));
	join_path(half, path, ".new-" ID);
	assert_true(access(half, F_OK) < 0);
	join_path(half, path, "lost+found");
	assert_int_equal(access(half, F_OK), 0);
	slice_store_fini(&again);
	test_rmdir(dir);
}

static int count_dir_entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n - 2;
}

/* The agent creates the directory; or it finds the directory of an older release. */
static void slice_store__keeps_others_out_of_the_directory(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX];
	struct error err = ERROR_INIT;
	struct slice_store s;
	struct stored_slice *one;
	struct stat st;

	(void)state;
	assert_ok(path_join(path, sizeof(path), dir, SLICES_DIR, &err), &err);
	assert_ok(slice_store_load(&s, dir, &err), &err);
	assert_ok(slice_store_add(&s, &one, "r", ids, 1, &plan, "lib", 1, 1000, &err), &err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, SLICES_DIR_MODE);
	slice_store_fini(&s);
	assert_int_equal(chmod(path, 0755), 0);
	assert_ok(slice_store_load(&s, dir, &err), &err);
	assert_int_equal(s.n, 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, SLICES_DIR_MODE);
	slice_store_fini(&s);
	test_rmdir(dir);
}

/* The store makes directories in advance, uses them, makes others, and removes them with the agent. */
static void slice_store__prepares_directories(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX];
	struct error err = ERROR_INIT;
	struct slice_store s;
	struct stored_slice *slice;

	(void)state;
	assert_ok(slice_store_load(&s, dir, &err), &err);
	join_path(path, dir, SLICES_DIR);
	while (slice_store_prepare(&s, &err))
		;
	assert_int_equal(err.code, ERR_NONE);
	assert_int_equal(count_dir_entries(path), SLICE_SPARES);
	for (int i = 0; i < SLICE_SPARES + 3; i++)
		assert_ok(slice_store_add(&s, &slice, "r", ids, 1, &plan, "lib", 1, 1000, &err),
			&err);
	assert_int_equal(count_dir_entries(path), SLICE_SPARES + 3);
	(void)slice_store_prepare(&s, &err);
	assert_int_equal(count_dir_entries(path), SLICE_SPARES + 4);
	slice_store_fini(&s);
	assert_int_equal(count_dir_entries(path), SLICE_SPARES + 3);
	assert_ok(slice_store_load(&s, dir, &err), &err);
	assert_int_equal(s.n, SLICE_SPARES + 3);
	assert_int_equal(s.broken.n, 0);
	slice_store_fini(&s);
	test_rmdir(dir);
}

static void slice_store__tolerates_removed_directories(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX];
	struct error err = ERROR_INIT;
	struct slice_store s;
	struct stored_slice *slice;

	(void)state;
	assert_ok(slice_store_load(&s, dir, &err), &err);
	while (slice_store_prepare(&s, &err))
		;
	join_path(path, dir, SLICES_DIR);
	test_rmdir(strdup(path));
	assert_ok(slice_store_add(&s, &slice, "r", ids, 1, &plan, "lib", 1, 1000, &err), &err);
	assert_int_equal(count_dir_entries(path), 1);
	slice_store_fini(&s);
	test_rmdir(dir);
}

/* The store finds it also after a restart of the agent, in the order of age. */
static void slice_store__finds_the_successor_of_a_slice(void **state)
{
	char *dir = test_tmpdir();
	struct error err = ERROR_INIT;
	struct slice_store s;
	struct stored_slice *slice;

	(void)state;
	assert_ok(slice_store_load(&s, dir, &err), &err);
	for (uint64_t at = 3; at > 0; at--)
		assert_ok(slice_store_add(&s, &slice, "r", ids, 1, &plan, "lib", 1, at * 1000,
				  &err),
			&err);
	slice_store_fini(&s);
	assert_ok(slice_store_load(&s, dir, &err), &err);
	for (uint64_t i = 0; i < 3; i++) {
		assert_true(s.v[i]->file.created_s == (i + 1) * 1000);
		assert_true(s.v[i]->superseded == (i < 2));
	}
	slice_store_fini(&s);
	test_rmdir(dir);
}

static void slice_store__requires_an_absolute_path(void **state)
{
	struct slice_store s;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(slice_store_load(&s, "state", &err), &err, "--state-dir");
	slice_store_fini(&s);
}

/* The kubelet reuses a device only when its pod has ended. Within a pod, init containers hand devices on at
 * the same moment. */
static void slice_store__supersedes_a_slice_with_the_same_devices(void **state)
{
	char *dir = test_tmpdir();
	struct error err = ERROR_INIT;
	struct slice_store s;
	struct stored_slice *init, *main_one, *other, *later;

	(void)state;
	assert_ok(slice_store_load(&s, dir, &err), &err);
	assert_ok(slice_store_add(&s, &init, "r", ids, 1, &plan, "lib", 1, 1000, &err), &err);
	assert_ok(slice_store_add(&s, &main_one, "r", ids, 2, &plan, "lib", 1, 1001, &err),
		&err);
	assert_ok(slice_store_add(&s, &other, "q", ids, 2, &plan, "lib", 1, 1000, &err), &err);
	assert_false(init->superseded);
	assert_ok(slice_store_add(&s, &later, "r", ids, 1, &plan, "lib", 7, 2000, &err), &err);
	assert_true(init->superseded && main_one->superseded);
	assert_true(init->superseded_ns == 7);
	assert_false(other->superseded || later->superseded);
	slice_store_fini(&s);
	test_rmdir(dir);
}

/* --- life of a slice --- */

#define KEEP UINT64_C(100)

static void slice_life__follows_the_table(void **state)
{
	static const struct {
		bool superseded;
		enum slice_life_answer named, held, busy;
		uint64_t free_for; /* at the sweep */
		bool ends;
	} rows[] = {
		/* a pod has it */
		{ false, SLICE_LIFE_UNKNOWN, SLICE_LIFE_YES, SLICE_LIFE_NO, 1000, false },
		{ false, SLICE_LIFE_YES, SLICE_LIFE_NO, SLICE_LIFE_NO, 1000, false },
		{ true, SLICE_LIFE_YES, SLICE_LIFE_NO, SLICE_LIFE_NO, 1000, false },
		/* unknown */
		{ false, SLICE_LIFE_UNKNOWN, SLICE_LIFE_UNKNOWN, SLICE_LIFE_NO, 1000, false },
		/* no pod has it, for some time */
		{ false, SLICE_LIFE_NO, SLICE_LIFE_NO, SLICE_LIFE_NO, KEEP - 1, false },
		{ false, SLICE_LIFE_NO, SLICE_LIFE_NO, SLICE_LIFE_NO, KEEP, true },
		{ false, SLICE_LIFE_UNKNOWN, SLICE_LIFE_NO, SLICE_LIFE_NO, KEEP, true },
		/* but a process has */
		{ false, SLICE_LIFE_NO, SLICE_LIFE_NO, SLICE_LIFE_YES, 1000, false },
		{ true, SLICE_LIFE_NO, SLICE_LIFE_NO, SLICE_LIFE_YES, 1000, false },
		/* the arbiter is down */
		{ false, SLICE_LIFE_NO, SLICE_LIFE_NO, SLICE_LIFE_UNKNOWN, KEEP, false },
		{ false, SLICE_LIFE_NO, SLICE_LIFE_NO, SLICE_LIFE_UNKNOWN, 2 * KEEP, true },
		/* its devices belong to another slice */
		{ true, SLICE_LIFE_NO, SLICE_LIFE_YES, SLICE_LIFE_NO, 0, true },
		{ true, SLICE_LIFE_UNKNOWN, SLICE_LIFE_YES, SLICE_LIFE_NO, KEEP - 1, false },
		{ true, SLICE_LIFE_UNKNOWN, SLICE_LIFE_YES, SLICE_LIFE_NO, KEEP, true },
		{ true, SLICE_LIFE_UNKNOWN, SLICE_LIFE_YES, SLICE_LIFE_UNKNOWN, KEEP, false },
		{ true, SLICE_LIFE_UNKNOWN, SLICE_LIFE_YES, SLICE_LIFE_UNKNOWN, 2 * KEEP,
			true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct slice_life_facts facts = { .named = rows[i].named,
			.allocated = rows[i].held,
			.busy = rows[i].busy };
		struct stored_slice s = { .superseded = rows[i].superseded,
			.superseded_ns = 5000,
			.free_since_ns = 5000 };

		if (slice_life_ends(&s, &facts, 5000 + rows[i].free_for, KEEP) != rows[i].ends)
			fail_msg("row %zu", i);
	}
}

/* A pod that comes back uses its slice again: the clock restarts. */
static void slice_life__starts_again_when_allocated(void **state)
{
	struct slice_life_facts facts = { .named = SLICE_LIFE_NO,
		.allocated = SLICE_LIFE_NO,
		.busy = SLICE_LIFE_NO };
	struct stored_slice s = { .superseded = false };

	(void)state;
	assert_false(slice_life_ends(&s, &facts, 1000, KEEP));
	facts.allocated = SLICE_LIFE_YES;
	assert_false(slice_life_ends(&s, &facts, 1050, KEEP));
	facts.allocated = SLICE_LIFE_NO;
	assert_false(slice_life_ends(&s, &facts, 1100, KEEP));
	assert_false(slice_life_ends(&s, &facts, 1199, KEEP));
	assert_true(slice_life_ends(&s, &facts, 1200, KEEP));
}

/* base64 of "\x12/var/lib/gpuslice/slices/<ID>\x01" and of the same without a slice */
#define NAMED "Ei92YXIvbGliL2dwdXNsaWNlL3NsaWNlcy8wMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZgE="
#define PLAIN "Ei92YXIvbGliL2dwdXNsaWNlL3NsaWNlcy8="

static void slice_checkpoint__is_searched_for_ids(void **state)
{
	static const struct {
		const char *text;
		int ids; /* -1: it is none */
	} rows[] = {
		{ "", -1 },
		{ "{}", -1 },
		{ "{\"Data\":{\"PodDeviceEntries\":null}}", 0 },
		{ "{\"Data\":{\"PodDeviceEntries\":[]}}", 0 },
		{ "{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"u\"}]}}", -1 },
		{ "{\"Data\":{\"PodDeviceEntries\":[{\"AllocResp\":\"" PLAIN "\"}]}}", 0 },
		{ "{\"Data\":{\"PodDeviceEntries\":[{\"AllocResp\":\"" PLAIN
		  "\"},{\"AllocResp\":\"" NAMED "\"}]},\"Checksum\":1}",
			1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv list = STRV_INIT;
		struct error err = ERROR_INIT;
		int r = slice_checkpoint_ids(&list, rows[i].text, strlen(rows[i].text), &err);

		if ((r < 0) != (rows[i].ids < 0) ||
			(rows[i].ids >= 0 && (size_t)rows[i].ids != list.n))
			fail_msg("row %zu: %d, %zu ids", i, r, list.n);
		if (rows[i].ids == 1)
			assert_string_equal(list.v[0], ID);
	}
}

static void slice_mounts__are_found_in_other_namespaces(void **state)
{
	char *dir = test_tmpdir(), slice[PATH_MAX], at[PATH_MAX];
	CLEANUP(strv_fini) struct strv before = STRV_INIT;
	CLEANUP(strv_fini) struct strv during = STRV_INIT;
	struct error err = ERROR_INIT;
	pid_t pid;

	(void)state;
	join_path(slice, dir, SLICES_DIR "/" ID);
	join_path(at, dir, "at");
	assert_ok(dir_make(slice, 0755, &err), &err);
	assert_ok(dir_make(at, 0755, &err), &err);
	/* SLICE_MOUNTS_PARTIAL is of other processes on this machine. */
	assert_in_range(slice_mounts_find(&before, "/proc", &err), 0, SLICE_MOUNTS_PARTIAL);
	pid = mounted_slice_begin(slice, at);
	if (pid) {
		assert_in_range(slice_mounts_find(&during, "/proc", &err), 0,
			SLICE_MOUNTS_PARTIAL);
		assert_true(during.n > before.n && strv_has(&during, ID));
		mounted_slice_end(pid);
	} else {
		print_message("# skipped: no mount namespaces\n");
	}
	test_rmdir(dir);
}

/* --- the libraries --- */

static void write_slices_file(const char *dir, const char *name, const char *text)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	join_path(path, dir, name);
	assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
}

static void slice_libs__are_never_changed_in_place(void **state)
{
	char *from = test_tmpdir(), *to = test_tmpdir();
	char one[SLICE_LIB_NAME_MAX], same[SLICE_LIB_NAME_MAX], two[SLICE_LIB_NAME_MAX];
	char path[PATH_MAX], dir[PATH_MAX];
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	CLEANUP(strv_fini) struct strv keep = STRV_INIT;
	struct error err = ERROR_INIT;
	struct stat before, after;

	(void)state;
	assert_error(slice_libs_install(one, to, from, &err), &err,
		"no library " SLICE_LIB_CUDA);
	write_slices_file(from, SLICE_LIB_CUDA, "\177ELF cuda");
	write_slices_file(from, SLICE_LIB_NVML, "text");
	error_clear(&err);
	assert_error(slice_libs_install(one, to, from, &err), &err, "is no library");
	write_slices_file(from, SLICE_LIB_NVML, "\177ELF nvml");
	error_clear(&err);
	assert_ok(slice_libs_install(one, to, from, &err), &err);
	assert_true(slice_lib_name_ok(one));
	assert_ok(slice_libs_path(path, to, one, SLICE_LIBS_PRELOAD, &err), &err);
	assert_ok(file_read(path, &b, &err), &err);
	assert_string_equal(buf_str(&b), "/usr/local/gpuslice/lib/libgpuslice-cuda.so\n"
					 "/usr/local/gpuslice/lib/libgpuslice-nvml.so\n");
	assert_int_equal(stat(path, &before), 0);
	assert_ok(slice_libs_install(same, to, from, &err), &err);
	assert_string_equal(one, same);
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_ino == after.st_ino);

	/* The libraries of another build exist beside it. */
	write_slices_file(from, SLICE_LIB_NVML, "\177ELF newer");
	assert_ok(slice_libs_install(two, to, from, &err), &err);
	assert_string_not_equal(one, two);
	assert_int_equal(access(path, F_OK), 0);
	assert_ok(strv_add(&keep, two, &err), &err);
	slice_libs_sweep(to, &keep);
	assert_true(access(path, F_OK) < 0);

	/* A part of it is missing: made whole. */
	assert_ok(slice_libs_path(path, to, two, SLICE_LIB_CUDA, &err), &err);
	assert_int_equal(unlink(path), 0);
	assert_false(slice_libs_there(to, two));
	assert_ok(slice_libs_path(dir, to, two, NULL, &err), &err);
	assert_int_equal(stat(dir, &before), 0);
	assert_ok(slice_libs_install(same, to, from, &err), &err);
	assert_int_equal(access(path, F_OK), 0);
	assert_true(slice_libs_there(to, two));
	/* The libraries are in the directory that containers have mounted. */
	assert_int_equal(stat(dir, &after), 0);
	assert_true(before.st_ino == after.st_ino);

	/* A container runtime that did not find the source of a mount leaves a directory. */
	assert_ok(slice_libs_path(path, to, two, SLICE_LIBS_PRELOAD, &err), &err);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_false(slice_libs_there(to, two));
	assert_ok(slice_libs_install(same, to, from, &err), &err);
	assert_true(slice_libs_there(to, two));
	test_rmdir(from);
	test_rmdir(to);
}

/* --- a disk that is full --- */

static void add_ready(struct slice_store *s)
{
	struct error err = ERROR_INIT;
	struct stored_slice *slice;

	assert_ok(slice_store_add(s, &slice, "r", ids, 1, &plan, "lib", 1, 1000, &err), &err);
}

/* slice_store_ready() and slice_store_add() both fail with @why. */
static void no_slice(struct slice_store *s, const char *why)
{
	struct error err = ERROR_INIT;
	struct stored_slice *slice;
	size_t n = s->n;

	assert_error(slice_store_ready(s, &err), &err, why);
	error_clear(&err);
	assert_error(slice_store_add(s, &slice, "r", ids, 1, &plan, "lib", 1, 1000, &err), &err,
		why);
	assert_int_equal(s->n, n);
}

static void fill_disk(const char *path)
{
	static const char zeros[4096];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	(void)close(fd);
}

static void prepare_all(struct slice_store *s)
{
	struct error err = ERROR_INIT;

	while (slice_store_prepare(s, &err))
		;
	assert_ok(slice_store_ready(s, &err), &err);
}

static void slice_store__checks_whether_a_slice_can_be_created(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX], filler[PATH_MAX];
	struct error err = ERROR_INIT;
	struct slice_store s;

	(void)state;
	SKIP_UNLESS(unshare(CLONE_NEWNS) == 0 &&
			    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			    mount("none", dir, "tmpfs", 0, "size=2m") == 0,
		"no mounts here");
	join_path(path, dir, SLICES_DIR);
	join_path(filler, dir, "filler");
	assert_ok(slice_store_load(&s, dir, &err), &err);
	prepare_all(&s);
	fill_disk(filler);
	/* A prepared directory has its place. */
	for (int i = 0; i < SLICE_SPARES; i++)
		add_ready(&s);
	fill_disk(filler); /* what is left of it */
	no_slice(&s, "No space left on device");
	assert_int_equal(unlink(filler), 0);
	add_ready(&s);

	/* No prepared directory can be used. */
	prepare_all(&s);
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	no_slice(&s, "Read-only file system");
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT, "size=64m"), 0);
	add_ready(&s);
	test_rmdir(strdup(path));
	add_ready(&s);

	while (s.n < SLICES_MAX)
		add_ready(&s);
	no_slice(&s, "there are 4096 slices on this node already");
	assert_ok(slice_store_remove(&s, s.v[0], &err), &err);
	add_ready(&s);
	slice_store_fini(&s);
	assert_int_equal(umount(dir), 0);
	test_rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_file__reads_back_what_it_writes),
		cmocka_unit_test(slice_file__rejects_invalid_files),
		cmocka_unit_test(slice_store__finds_its_slices_again),
		cmocka_unit_test(slice_store__keeps_others_out_of_the_directory),
		cmocka_unit_test(slice_store__prepares_directories),
		cmocka_unit_test(slice_store__tolerates_removed_directories),
		cmocka_unit_test(slice_store__finds_the_successor_of_a_slice),
		cmocka_unit_test(slice_store__requires_an_absolute_path),
		cmocka_unit_test(slice_store__supersedes_a_slice_with_the_same_devices),
		cmocka_unit_test(slice_life__follows_the_table),
		cmocka_unit_test(slice_life__starts_again_when_allocated),
		cmocka_unit_test(slice_checkpoint__is_searched_for_ids),
		cmocka_unit_test(slice_mounts__are_found_in_other_namespaces),
		cmocka_unit_test(slice_libs__are_never_changed_in_place),
		cmocka_unit_test(slice_store__checks_whether_a_slice_can_be_created),
	};

	return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
