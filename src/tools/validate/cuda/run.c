/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the process that calls CUDA, in the process that watches it. */
#include "tools/validate/cuda/internal.h"

#include "lib/base/time.h"
#include "tools/validate/child.h"
#include "tools/validate/validate.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* --- notes --- */

const char *cuda_step_name(unsigned step)
{
	static const char *const names[CUDA_STEP_COUNT_] = { [CUDA_STEP_OPEN] =
								     "open of libcuda.so.1",
#define X(name, params) [CUDA_STEP_##name] = #name,
		CUDA_CALLS(X)
#undef X
	};

	return step < CUDA_STEP_COUNT_ ? names[step] : "?";
}

static bool is_note_text_terminated(const char *text, size_t cap)
{
	return memchr(text, '\0', cap) != NULL;
}

int cuda_note_check(const struct cuda_note *n, size_t len, struct error *err)
{
	if (len != sizeof(*n) || n->magic != CUDA_NOTE_MAGIC || n->size != sizeof(*n))
		return error_set(err, ERR_INVALID, "the CUDA process sent %zu unknown bytes",
			len);
	if (n->type == 0 || n->type >= CUDA_NOTE_TYPE_COUNT_ || n->step >= CUDA_STEP_COUNT_ ||
		n->device >= CUDA_DEVICES_MAX || n->value < CUDA_NOTE_WRONG_SUM ||
		(n->type == CUDA_NOTE_COUNT && (n->value < 0 || n->value > CUDA_DEVICES_MAX)))
		return error_set(err, ERR_INVALID,
			"the CUDA process sent a number that is out of range");
	if (!is_note_text_terminated(n->uuid, sizeof(n->uuid)) ||
		!is_note_text_terminated(n->bus_id, sizeof(n->bus_id)) ||
		!is_note_text_terminated(n->name, sizeof(n->name)) ||
		!is_note_text_terminated(n->text, sizeof(n->text)))
		return error_set(err, ERR_INVALID,
			"the CUDA process sent a text that does not end");
	return 0;
}

/* --- the run --- */

#define SELF         "/proc/self/exe"
#define ENDING_NS    (5 * NS_PER_SEC)
#define VISIBLE_MAX  (CUDA_DEVICES_MAX * (GPU_UUID_MAX + 1) + 32)
#define CALL_DEFAULT (30 * NS_PER_SEC)
/* cuInit() opens every GPU of the node. That takes a second or more for each GPU that no other
 * process has open. */
#define INIT_FACTOR 4

static uint64_t allowed_ns(uint32_t step, uint64_t timeout_ns)
{
	uint64_t ns = timeout_ns ? timeout_ns : CALL_DEFAULT;

	return step == CUDA_STEP_cuInit ? INIT_FACTOR * ns : ns;
}

/* 1: a note; 0: the deadline passed; -1: the CUDA process closed its end; -2: error in *err. */
static int receive_cuda_note(int fd, uint64_t deadline_ns, struct cuda_note *ret,
	struct error *err)
{
	for (;;) {
		uint64_t now = time_mono_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (now >= deadline_ns)
			return 0;
		if (poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = recv(fd, ret, sizeof(*ret), MSG_DONTWAIT | MSG_TRUNC);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return -1;
		if (n > 0)
			return cuda_note_check(ret, (size_t)n, err) < 0 ? -2 : 1;
		if (errno != EINTR && errno != EAGAIN) {
			(void)error_sys(err, errno, "hear from the CUDA process");
			return -2;
		}
	}
}

/* False: the note was the END. */
static bool apply_cuda_note(struct cuda_run *r, const struct cuda_note *n)
{
	r->last = *n;
	if (n->type == CUDA_NOTE_COUNT)
		r->count = n->value;
	if (n->type == CUDA_NOTE_RESULT && r->n_results < CUDA_DEVICES_MAX)
		r->results[r->n_results++] = *n;
	r->end = CUDA_END_REPORTED;
	return n->type != CUDA_NOTE_END;
}

static int listen_to(struct cuda_run *r, struct validate_child *c, uint64_t timeout_ns,
	struct error *err)
{
	struct cuda_note n;
	int got;

	do {
		uint64_t now = time_mono_ns();

		got = receive_cuda_note(c->fd, now + allowed_ns(r->last.step, timeout_ns), &n,
			err);
		if (got == -2)
			return -1;
		if (got <= 0) {
			r->end = got == 0 ? CUDA_END_HUNG : CUDA_END_CRASHED;
			if (got < 0)
				(void)child_end(c, now + ENDING_NS, r->how, sizeof(r->how));
			return 0;
		}
	} while (apply_cuda_note(r, &n));
	/* The END has come. The driver's cleanup at exit may still take a moment, or crash. */
	(void)child_end(c, time_mono_ns() + ENDING_NS, r->how, sizeof(r->how));
	return 0;
}

int cuda_run(struct cuda_run *ret, const char *library, const char *uuids, uint64_t timeout_ns,
	struct error *err)
{
	CLEANUP(freep) char *visible = malloc(VISIBLE_MAX);
	CLEANUP(child_fini) struct validate_child c = CHILD_INIT;
	const char *const argv[] = { SELF, "validate", CUDA_CHILD_WORD, library ? library : "",
		NULL };
	/* The compiled kernel does not need a cache file in the user's home directory. */
	const char *const env[] = { "CUDA_CACHE_DISABLE=1", uuids ? visible : NULL, NULL };
	const struct child_options options = { .argv = argv,
		.env = env,
		.deadline_ns = time_mono_ns() + allowed_ns(CUDA_STEP_OPEN, timeout_ns),
		.notes = true };

	*ret = (struct cuda_run){ .count = -1 };
	ret->results = calloc(CUDA_DEVICES_MAX, sizeof(*ret->results));
	if (!visible || !ret->results)
		return error_nomem(err);
	if (uuids &&
		snprintf(visible, VISIBLE_MAX, "CUDA_VISIBLE_DEVICES=%s", uuids) >= VISIBLE_MAX)
		return error_set(err, ERR_LIMIT, "the list of GPUs is too long");
	if (child_start(&c, &options, err) < 0)
		return -1;
	return listen_to(ret, &c, timeout_ns, err);
}

void cuda_run_fini(struct cuda_run *r)
{
	free(r->results);
	*r = (struct cuda_run){ .results = NULL };
}
