/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The hooks in front of work: each passes on what it is given bit by bit, tells the gate once what it is, and
 * notes it if its stream may wait for others (gen-submit-test.py); no function that takes a stream is
 * forgotten in cuda.txt; those that are more than the gate, by hand.
 */
#include "support/test.h"

#include "container/cuda/work/work.h"
#include "unit/container/cuda/fake-gate.h"
#include "unit/container/cuda/submit-test.h"

#include <stdio.h>
#include <string.h>

#define PARAMS_MAX 16
#define ANSWER     4711

_Atomic bool link_off;
void *forward_slots[SLOTS_CUDA];

void *forward_resolve(unsigned int slot)
{
	fail_msg("slot %u is empty", slot);
	return NULL;
}

/* --- the driver --- */

static union {
	max_align_t align;
	unsigned char bytes[65536];
} zeros;

static struct {
	unsigned char given[PARAMS_MAX][64], got[PARAMS_MAX][64];
	size_t given_size[PARAMS_MAX], got_size[PARAMS_MAX];
	unsigned int calls;
	bool succeeds; /* else it answers ANSWER */
	/* The gate's counts at the call. */
	uint64_t begun, ended;
	unsigned int parks, parked;
} driver;

void submit_canary(unsigned int i, void *where, size_t size, enum submit_canary kind)
{
	unsigned char *to = where;
	void *p = zeros.bytes + 512 * (i + 1);

	assert_true(i < PARAMS_MAX && size <= sizeof(driver.given[i]));
	for (size_t k = 0; k < size; k++)
		to[k] = (unsigned char)(0x91 + 37 * i + 11 * k);
	if (kind == SUBMIT_POINTER)
		memcpy(where, &p, sizeof(p));
	if (kind == SUBMIT_COUNT)
		memcpy(where, &(size_t){ i + 1 }, sizeof(size_t));
	memcpy(driver.given[i], where, size);
	driver.given_size[i] = size;
}

void submit_got(unsigned int i, const void *where, size_t size)
{
	memcpy(driver.got[i], where, size);
	driver.got_size[i] = size;
}

CUresult submit_called(void)
{
	driver.calls++;
	driver.begun = atomic_load(&fake_gate_page.gpus[0].begun);
	driver.ended = atomic_load(&fake_gate_page.gpus[0].ended);
	driver.parks = fake_gate.waits;
	driver.parked = fake_gate.waits_given;
	return driver.succeeds ? CUDA_SUCCESS : ANSWER;
}

static void call_to(struct submit_row *row, bool succeeds)
{
	CUresult r;

	memset(&driver, 0, sizeof(driver));
	driver.succeeds = succeeds;
	forward_slots[row->slot] = *(void **)&row->real;
	r = row->call(row);
	forward_slots[row->slot] = NULL;
	if (r != (succeeds ? CUDA_SUCCESS : ANSWER) || driver.calls != 1)
		fail_msg("%s: %u calls, answer %u", row->name, driver.calls, r);
	for (unsigned int i = 0; i < row->params; i++)
		if (!driver.got_size[i] || driver.got_size[i] != driver.given_size[i] ||
			memcmp(driver.got[i], driver.given[i], driver.got_size[i]) != 0)
			fail_msg("%s: parameter %u is not what was given", row->name, i);
}

static void call_row_hook(struct submit_row *row)
{
	call_to(row, false);
}

static unsigned int flags_of(const struct submit_row *row)
{
	unsigned int flags = row->own ? GATE_OWN : 0;

	if (row->kind == SUBMIT_SYNC)
		flags |= GATE_NO_STREAM | (row->bytes > GATE_SYNC_BYTES ? 0 : GATE_PASS);
	return row->kind == SUBMIT_PASS ? flags | GATE_PASS : flags;
}

static int setup(void **state)
{
	(void)state;
	atomic_store(&link_off, false);
	fake_gate_new(true);
	return 0;
}

/* --- all of them --- */

static void hook__counts_once_and_passes_all_arguments(void **state)
{
	(void)state;
	for (size_t i = 0; i < submit_row_count; i++) {
		struct submit_row *row = &submit_rows[i];
		struct turn_gpu_page *p = &fake_gate_page.gpus[0];
		unsigned int work = row->kind != SUBMIT_NONE;
		unsigned int copies = work && row->kind != SUBMIT_LAUNCH;

		fake_gate_new(true);
		call_row_hook(row);
		if (p->begun != work || p->ended != work || p->copies != copies ||
			p->bytes != row->bytes || fake_gate.slow)
			fail_msg("%s: begun %u, ended %u, copies %u, bytes %llu of %llu",
				row->name, (unsigned int)p->begun, (unsigned int)p->ended,
				(unsigned int)p->copies, (unsigned long long)p->bytes,
				(unsigned long long)row->bytes);
		/* Begun before the driver's call, ended after it. */
		if (driver.begun != work || driver.ended != 0)
			fail_msg("%s: the driver was called outside of the gate", row->name);
	}
}

static void hook__reports_its_kind_to_the_gate(void **state)
{
	(void)state;
	for (size_t i = 0; i < submit_row_count; i++) {
		struct submit_row *row = &submit_rows[i];
		unsigned int flags;

		fake_gate_new(false);
		fake_gate.place_fence = true;
		row->stream = NULL;
		call_row_hook(row);
		flags = flags_of(row);
		if (row->kind == SUBMIT_NONE && fake_gate.slow)
			fail_msg("%s: it is no work", row->name);
		if (row->kind == SUBMIT_NONE)
			continue;
		if (fake_gate.slow != 1 || fake_gate.own_fence != 1 ||
			fake_gate_page.gpus[0].ended != 1 || fake_gate.stream != row->stream ||
			fake_gate.flags != flags)
			fail_msg("%s: asked %u times, stream %p of %p, flags %u of %u",
				row->name, fake_gate.slow, (void *)fake_gate.stream,
				(void *)row->stream, fake_gate.flags, flags);
	}
}

static void hook__counts_nothing_that_is_captured(void **state)
{
	(void)state;
	for (size_t i = 0; i < submit_row_count; i++) {
		struct submit_row *row = &submit_rows[i];
		struct turn_gpu_page *p = &fake_gate_page.gpus[0];

		fake_gate_new(true);
		fake_gate.refuse = true;
		gate_capture_begins();
		call_row_hook(row);
		if (fake_gate.slow != (row->kind != SUBMIT_NONE) || p->begun || p->ended ||
			p->copies || p->bytes)
			fail_msg("%s: counted, though it is no work", row->name);
	}
}

/* Requested before the driver's call, and reported after it if it succeeded. */
static void hook__records_calls_that_make_a_stream_wait(void **state)
{
	(void)state;
	for (size_t i = 0; i < submit_row_count; i++) {
		struct submit_row *row = &submit_rows[i];
		unsigned int flags = row->own ? GATE_OWN : 0;

		fake_gate_new(true);
		call_to(row, true);
		if (fake_gate.waits != row->parks || fake_gate.waits_given != row->parks)
			fail_msg("%s: asked %u times, noted %u times", row->name,
				fake_gate.waits, fake_gate.waits_given);
		if (driver.parks != row->parks || driver.parked)
			fail_msg("%s: not around the call of the driver", row->name);
		if (row->parks &&
			(fake_gate.wait_stream != row->stream || fake_gate.wait_flags != flags))
			fail_msg("%s: another stream", row->name);
		call_row_hook(row); /* the driver does not take it */
		if (fake_gate.waits != 2 * row->parks || fake_gate.waits_given != row->parks)
			fail_msg("%s: noted, though it failed", row->name);
		fake_gate_new(true);
		fake_gate.refuse = true;
		call_to(row, true);
		if (fake_gate.waits_given)
			fail_msg("%s: noted, though it is captured", row->name);
	}
}

static void hook__outside_of_a_slice_does_not_call_the_gate(void **state)
{
	(void)state;
	atomic_store(&link_off, true);
	for (size_t i = 0; i < submit_row_count; i++) {
		call_row_hook(&submit_rows[i]);
		assert_int_equal(fake_gate.slow + fake_gate.waits, 0);
		assert_int_equal(fake_gate_page.gpus[0].begun, 0);
	}
}

/* --- the list --- */

static bool is_listed(char *line, const char *name)
{
	size_t n = strlen(name);

	line[strcspn(line, "#\n")] = '\0';
	return !strncmp(line, name, n) && (line[n] == ' ' || !line[n]);
}

/* "launch", "copy", "sync", "pass", or why it is not work; "": the table has no mark. */
static void find_mark(const char *name, char ret[32])
{
	FILE *f = fopen(TEST_SOURCE "/src/container/loader/cuda.txt", "re");
	char line[256], *word, *save;
	bool found = false;

	ret[0] = '\0';
	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		found = is_listed(line, name);
	(void)fclose(f);
	if (!found)
		fail_msg("%s is not in cuda.txt", name);
	(void)strtok_r(line, " ", &save);
	while ((word = strtok_r(NULL, " ", &save)))
		if (strcmp(word, "hook") != 0 && strcmp(word, "parks") != 0 &&
			strncmp(word, "bytes=", 6) != 0)
			(void)snprintf(ret, 32, "%s", word);
}

static const struct {
	const char *name, *params;
} functions[] = {
#define ROW(name, params) { #name, #params },
	CUDA_FUNCTIONS(ROW)
#undef ROW
};

static void list__marks_every_function_that_has_a_stream(void **state)
{
	unsigned int n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const char *name = functions[i].name,
			   *at = strstr(functions[i].params, "CUstream");
		char mark[32];

		while (at &&
			(strncmp(at, "CUstream,", 9) != 0 && strncmp(at, "CUstream)", 9) != 0))
			at = strstr(at + 1, "CUstream");
		if (!at)
			continue;
		find_mark(name, mark);
		if (!mark[0])
			fail_msg("%s takes a stream: is it work, or why not?", name);
		n++;
	}
	assert_true(n > 150);
}

/* What gen-forward.py makes is what is tested here. */
static void list__has_all_tested_hooks(void **state)
{
	FILE *f = fopen(TEST_SOURCE "/src/container/loader/cuda.txt", "re");
	size_t made = 0, at = 0;
	char line[256];

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "#\n")] = '\0';
		if (strstr(line, " hook") ||
			!(strstr(line, " launch") || strstr(line, " copy") ||
				strstr(line, " sync") || strstr(line, " pass") ||
				strstr(line, " parks")))
			continue;
		made++;
		/* cuda.txt and submit_rows are both sorted by name. */
		if (at < submit_row_count && is_listed(line, submit_rows[at].name))
			at++;
	}
	(void)fclose(f);
	if (at < submit_row_count)
		fail_msg("%s is not marked", submit_rows[at].name);
	assert_int_equal(made, submit_row_count);
	assert_true(made > 150);
}

static void list__has_all_copies_and_launches(void **state)
{
	static const char *const begins[] = { "cuMemcpy", "cuMemset", "cuLaunch",
		"cuGraphLaunch", "cuMemPrefetch", "cuMemDiscard", "cuMemBatchDecompress",
		"cuGraphUpload" };
	char mark[32];

	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		for (size_t k = 0; k < sizeof(begins) / sizeof(*begins); k++) {
			const char *name = functions[i].name;

			if (strncmp(name, begins[k], strlen(begins[k])) != 0)
				continue;
			find_mark(name, mark);
			if (!mark[0] || !strncmp(mark, "not=", 4))
				fail_msg("%s is not marked as work", name);
			/* A host function is none of the GPU's. */
			if (!strcmp(mark, "pass") && strncmp(name, "cuLaunchHostFunc", 16) != 0)
				fail_msg("%s is never held", name);
		}
}

/* --- by hand --- */

#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + (n)))

static const CUlaunchConfig *ex_config;
static unsigned int ex_calls;

static CUresult real_ex(const CUlaunchConfig *config, CUfunction function, void **params,
	void **extra)
{
	assert_ptr_equal(config, ex_config);
	assert_ptr_equal(function, &ex_calls);
	assert_ptr_equal(params, &driver);
	assert_ptr_equal(extra, &zeros);
	ex_calls++;
	return ANSWER;
}

static void launch_ex(CUlaunchConfig *config, unsigned int flags)
{
	CUresult (*const hooks[])(const CUlaunchConfig *, CUfunction, void **,
		void **) = { cuLaunchKernelEx, cuLaunchKernelEx_ptsz };

	ex_config = config;
	forward_slots[SLOT_cuLaunchKernelEx] = (void *)real_ex;
	forward_slots[SLOT_cuLaunchKernelEx_ptsz] = (void *)real_ex;
	for (unsigned int own = 0; own < 2; own++) {
		fake_gate_new(false);
		ex_calls = 0;
		assert_int_equal(hooks[own](config, (CUfunction)&ex_calls, (void *)&driver,
					 (void *)&zeros),
			ANSWER);
		assert_int_equal(ex_calls, 1);
		assert_int_equal(fake_gate.slow, config != NULL);
		if (!config)
			continue;
		assert_ptr_equal(fake_gate.stream, config->hStream);
		assert_int_equal(fake_gate.flags, flags | (own ? GATE_OWN : 0));
		assert_int_equal(fake_gate_page.gpus[0].ended, 1);
		assert_int_equal(fake_gate_page.gpus[0].copies, 0);
	}
}

static void launch_ex__detects_programmatic_launches(void **state)
{
	CUlaunchAttribute a[3] = { { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.number = 1 },
		{ .id = 8, .value.number = 6 }, { .id = 0 } };
	CUlaunchConfig c = { .hStream = STREAM(1) };

	(void)state;
	launch_ex(NULL, 0);
	launch_ex(&c, 0);
	c.numAttrs = 3; /* without any: the driver decides */
	launch_ex(&c, 0);
	c.attrs = a;
	launch_ex(&c, 0);
	a[2] = (CUlaunchAttribute){ .id = 6 }; /* asks not to overlap */
	launch_ex(&c, 0);
	a[2].value.number = 1;
	launch_ex(&c, GATE_PROGRAMMATIC);
	a[2] = (CUlaunchAttribute){ .id = 7 };
	launch_ex(&c, GATE_PROGRAMMATIC);
	c.numAttrs = 2;
	launch_ex(&c, 0);
}

/* One function takes as long each time, on as many blocks. */
static void launch_ex__reports_the_kind_of_launch(void **state)
{
	CUlaunchConfig c = { .hStream = STREAM(1),
		.gridDimX = 3,
		.gridDimY = 5,
		.gridDimZ = 7 };
	uintptr_t kind = submit_kernel_kind((CUfunction)&ex_calls, 105);

	(void)state;
	launch_ex(&c, 0);
	assert_int_equal(fake_gate.kind, kind);
	c.gridDimZ = 8;
	launch_ex(&c, 0);
	assert_int_not_equal(fake_gate.kind, kind);
	assert_int_not_equal(submit_bytes_kind(1, 1 << 20), submit_bytes_kind(2, 1 << 20));
	assert_int_not_equal(submit_bytes_kind(1, 1 << 20), submit_bytes_kind(1, 1 << 21));
	assert_int_equal(submit_bytes_kind(1, 1 << 20), submit_bytes_kind(1, (1 << 21) - 1));
	assert_int_not_equal(submit_bytes_kind(1, 0), submit_bytes_kind(1, 1));
}

/* A number of attributes beyond any real one: the library reads a bounded number of them. */
static void launch_ex__reads_a_limited_number_of_attributes(void **state)
{
	static CUlaunchAttribute many[65];
	CUlaunchConfig c = { .attrs = many, .numAttrs = UINT32_MAX };

	(void)state;
	many[64].id = 7;
	assert_int_equal(submit_programmatic(&c), 0);
	many[63].id = 7;
	assert_int_equal(submit_programmatic(&c), GATE_PROGRAMMATIC);
}

static CUDA_LAUNCH_PARAMS devices[3] = {
	{ .hStream = STREAM(1) },
	{ .hStream = STREAM(2) },
	{ .hStream = STREAM(3) },
};

static CUresult real_multi(CUDA_LAUNCH_PARAMS *list, unsigned int n, unsigned int flags)
{
	assert_true(!list || list == devices);
	assert_int_equal(n, 3);
	assert_int_equal(flags, 5);
	return submit_called();
}

static void launch_on_several__opens_the_gate_of_each(void **state)
{
	(void)state;
	forward_slots[SLOT_cuLaunchCooperativeKernelMultiDevice] = (void *)real_multi;
	fake_gate_new(false);
	assert_int_equal(cuLaunchCooperativeKernelMultiDevice(devices, 3, 5), ANSWER);
	assert_int_equal(fake_gate.slow, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_ptr_equal(fake_gate.streams[i], devices[i].hStream);
	assert_int_equal(driver.begun, 3);
	assert_int_equal(driver.ended, 0);
	assert_int_equal(fake_gate_page.gpus[0].ended, 3);
	assert_int_equal(cuLaunchCooperativeKernelMultiDevice(NULL, 3, 5), ANSWER);
	assert_int_equal(fake_gate.slow, 3);
	fake_gate.place_fence = true;
	assert_int_equal(cuLaunchCooperativeKernelMultiDevice(devices, 3, 5), ANSWER);
	assert_int_equal(fake_gate.own_fence, 0);
	assert_int_equal(fake_gate_page.gpus[0].ended, 6);
}

static CUresult real_ops(CUstream stream, unsigned int n, CUstreamBatchMemOpParams *ops,
	unsigned int flags)
{
	(void)n, (void)ops;
	assert_ptr_equal(stream, STREAM(4));
	assert_int_equal(flags, 6);
	return submit_called();
}

static void memory_operations__count_unless_one_waits(void **state)
{
	static const unsigned int slots[] = { SLOT_cuStreamBatchMemOp,
		SLOT_cuStreamBatchMemOp_ptsz, SLOT_cuStreamBatchMemOp_v2,
		SLOT_cuStreamBatchMemOp_v2_ptsz };
	CUresult (*const hooks[])(CUstream, unsigned int, CUstreamBatchMemOpParams *,
		unsigned int) = { cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz,
		cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz };
	CUstreamBatchMemOpParams ops[3] = { { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32 },
		{ .operation = CU_STREAM_MEM_OP_BARRIER },
		{ .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64 } };

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		forward_slots[slots[i]] = (void *)real_ops;
		fake_gate_new(false);
		ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
		assert_int_equal(hooks[i](STREAM(4), 3, ops, 6), ANSWER);
		assert_int_equal(fake_gate.slow, 1);
		assert_int_equal(fake_gate.flags, GATE_PASS | (i & 1 ? GATE_OWN : 0));
		assert_int_equal(fake_gate_page.gpus[0].bytes, 12);
		assert_int_equal(fake_gate_page.gpus[0].ended, 1);
		ops[1].operation =
			i & 1 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
		assert_int_equal(hooks[i](STREAM(4), 3, ops, 6), ANSWER);
		assert_int_equal(fake_gate.slow, 1);
		assert_int_equal(fake_gate.waits, 1);
		assert_int_equal(fake_gate.waits_given, 0);
		assert_int_equal(hooks[i](STREAM(4), 1, ops, 6), ANSWER);
		assert_int_equal(fake_gate.slow, 2);
		assert_int_equal(fake_gate.waits, 1);
		/* A batch that the driver accepted may make the stream wait for others. */
		memset(&driver, 0, sizeof(driver));
		driver.succeeds = true;
		assert_int_equal(hooks[i](STREAM(4), 3, ops, 6), CUDA_SUCCESS);
		assert_int_equal(fake_gate.slow, 2);
		assert_int_equal(fake_gate.waits, 2);
		assert_int_equal(fake_gate.waits_given, 1);
		assert_int_equal(driver.parks, 2);
		assert_int_equal(driver.parked, 0);
		assert_ptr_equal(fake_gate.wait_stream, STREAM(4));
		assert_int_equal(fake_gate.wait_flags, i & 1 ? GATE_OWN : 0);
		driver.succeeds = false;
	}
}

static void sync_copy__waits_only_if_it_is_large(void **state)
{
	struct submit_row *row = NULL;
	CUDA_MEMCPY2D copy = { .WidthInBytes = GATE_SYNC_BYTES / 2, .Height = 2 };

	(void)state;
	for (size_t i = 0; i < submit_row_count; i++)
		if (!strcmp(submit_rows[i].name, "cuMemcpy2D_v2"))
			row = &submit_rows[i];
	assert_non_null(row);
	forward_slots[row->slot] = *(void **)&row->real;
	fake_gate_new(false);
	assert_int_equal(cuMemcpy2D_v2(&copy), ANSWER);
	assert_int_equal(fake_gate.flags, GATE_NO_STREAM | GATE_PASS);
	copy.Height++;
	assert_int_equal(cuMemcpy2D_v2(&copy), ANSWER);
	assert_int_equal(fake_gate.flags, GATE_NO_STREAM);
	assert_int_equal(fake_gate_page.gpus[0].bytes, GATE_SYNC_BYTES / 2 * 5);
}

/* --- bytes --- */

static CUresult real_descriptor(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array)
{
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	*d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = 1,
		.Format = 0x20,
		.NumChannels = 4,
		.Flags = 1 };
	return CUDA_SUCCESS;
}

static void copy_bytes__counts_the_moved_bytes(void **state)
{
	CUDA_MEMCPY2D d2 = { .WidthInBytes = 100, .Height = 7, .srcPitch = 128 };
	CUDA_MEMCPY2D_v1 d2_v1 = { .WidthInBytes = UINT32_MAX, .Height = UINT32_MAX };
	CUDA_MEMCPY3D d3 = { .WidthInBytes = 100, .Height = 7, .Depth = 3 };
	CUDA_MEMCPY3D_v1 d3_v1 = { .WidthInBytes = 100, .Height = 7, .Depth = 5 };
	CUDA_MEMCPY3D_PEER peer = { .WidthInBytes = 1, .Height = 7, .Depth = 3 };
	CUmemDecompressParams out[2] = { { .dstNumBytes = 5 }, { .dstNumBytes = 6 } };
	CUDA_MEMCPY3D_BATCH_OP ops[2] = {
		{ .src.type = 1, .dst.type = 1, .extent = { 10, 20, 30 } },
		{ .src.type = 1,
			.dst = { .type = 2, .op.array.array = (CUarray)&d2 },
			.extent = { 10, 2, 1 } },
	};

	(void)state;
	forward_slots[SLOT_cuArray3DGetDescriptor_v2] = (void *)real_descriptor;
	assert_int_equal(submit_bytes_2d(&d2), 700);
	assert_true(submit_bytes_2d_v1(&d2_v1) == (uint64_t)UINT32_MAX * UINT32_MAX);
	assert_int_equal(submit_bytes_3d(&d3), 2100);
	assert_int_equal(submit_bytes_3d_v1(&d3_v1), 3500);
	assert_int_equal(submit_bytes_3d_peer(&peer), 21);
	assert_int_equal(submit_bytes_batch((size_t[]){ 1, 2, 3 }, 3), 6);
	assert_int_equal(submit_bytes_decompress(out, 2), 11);
	assert_int_equal(submit_bytes_3d_batch(ops, 2), 6000 + 20 * 16);
	ops[1].dst.op.array.array = NULL;
	assert_int_equal(submit_bytes_3d_batch(ops, 2), 6000 + 20);
}

static void copy_bytes__returns_a_number_for_an_invalid_description(void **state)
{
	CUDA_MEMCPY3D d3 = { .WidthInBytes = SIZE_MAX, .Height = SIZE_MAX, .Depth = 2 };

	(void)state;
	assert_true(submit_bytes_3d(&d3) == UINT64_MAX);
	assert_true(submit_bytes_batch((size_t[]){ SIZE_MAX, 5 }, 2) == UINT64_MAX);
	assert_int_equal(submit_bytes_2d(NULL), 0);
	assert_int_equal(submit_bytes_2d_v1(NULL), 0);
	assert_int_equal(submit_bytes_3d(NULL), 0);
	assert_int_equal(submit_bytes_3d_v1(NULL), 0);
	assert_int_equal(submit_bytes_3d_peer(NULL), 0);
	assert_int_equal(submit_bytes_batch(NULL, 3), 0);
	assert_int_equal(submit_bytes_3d_batch(NULL, 3), 0);
	assert_int_equal(submit_bytes_decompress(NULL, 3), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(hook__counts_once_and_passes_all_arguments, setup),
		cmocka_unit_test_setup(hook__reports_its_kind_to_the_gate, setup),
		cmocka_unit_test_setup(hook__counts_nothing_that_is_captured, setup),
		cmocka_unit_test_setup(hook__records_calls_that_make_a_stream_wait, setup),
		cmocka_unit_test_setup(hook__outside_of_a_slice_does_not_call_the_gate, setup),
		cmocka_unit_test(list__marks_every_function_that_has_a_stream),
		cmocka_unit_test(list__has_all_tested_hooks),
		cmocka_unit_test(list__has_all_copies_and_launches),
		cmocka_unit_test_setup(launch_ex__detects_programmatic_launches, setup),
		cmocka_unit_test_setup(launch_ex__reports_the_kind_of_launch, setup),
		cmocka_unit_test_setup(launch_ex__reads_a_limited_number_of_attributes, setup),
		cmocka_unit_test_setup(launch_on_several__opens_the_gate_of_each, setup),
		cmocka_unit_test_setup(memory_operations__count_unless_one_waits, setup),
		cmocka_unit_test_setup(sync_copy__waits_only_if_it_is_large, setup),
		cmocka_unit_test_setup(copy_bytes__counts_the_moved_bytes, setup),
		cmocka_unit_test_setup(copy_bytes__returns_a_number_for_an_invalid_description,
			setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
