/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "testbed/sim/fake-root/fake-root.h"

struct ring_slot {
	_Atomic uint64_t number; /* number of the event in the slot, plus 1; 0: being written */
	_Atomic uint64_t words[sizeof(struct sim_event) / 8];
};

struct hang_cell {
	_Atomic uint64_t ns, until_ns;
	_Atomic uint32_t calls;
	_Atomic uint32_t word; /* futex: changes when the hang does */
};

struct usage_table {
	_Atomic uint32_t seq; /* odd: being written */
	_Atomic uint32_t count;
	_Atomic uint64_t total;
	struct {
		_Atomic uint32_t pid;
		_Atomic uint64_t bytes;
	} rows[SIM_MAX_PROCESSES];
};

struct fault_cell {
	_Atomic uint64_t at; /* countdown to the first one that fails; 1: the next */
	_Atomic uint32_t times, value;
};

struct state_file {
	uint32_t magic, version;
	uint64_t size_bytes;
	_Atomic uint64_t generation; /* copy generation & 1 is current */
	_Atomic uint64_t ring_head;  /* number of the next event */
	_Atomic uint32_t ring_word;  /* futex: changes with ring_head */
	_Atomic uint32_t files_open; /* 1: files of MIG instances may be incomplete */
	struct ring_slot ring[SIM_RING_EVENTS];
	struct hang_cell hang[SIM_MAX_GPUS];
	_Atomic uint64_t counts[SIM_COUNT_KINDS];
	struct usage_table usage[SIM_MAX_GPUS];
	_Atomic uint64_t load[SIM_MAX_GPUS][SIM_STATE_LOAD_WORDS];
	struct fault_cell faults[SIM_MAX_GPUS][SIM_CUDA_FAULTS];
	_Atomic uint64_t copies[2][sizeof(struct sim_node) / 8];
};

static_assert(sizeof(struct sim_event) % 8 == 0, "words");
static_assert(sizeof(struct sim_node) % 8 == 0, "words");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics must work between processes");

struct sim_state {
	struct state_file *file;
	dev_t dev;
	ino_t ino;
	char path[SIM_PATH_MAX], dir[SIM_PATH_MAX];
};

/* --- file --- */

static int state_path(const char *dir, char *ret, struct error *err)
{
	return path_join(ret, SIM_PATH_MAX, dir, SIM_STATE_FILE, err);
}

int sim_state_open(const char *dir, struct sim_state **ret, struct error *err)
{
	CLEANUP(freep) struct sim_state *s = calloc(1, sizeof(*s));
	CLEANUP(closep) int fd = -1;
	struct stat st;

	if (!s)
		return error_nomem(err);
	if (state_path(dir, s->path, err) < 0)
		return -1;
	(void)snprintf(s->dir, sizeof(s->dir), "%s", dir);
	fd = open(s->path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return SIM_STATE_E_NONE;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_sys(err, errno, "open '%s'", s->path);
	if ((size_t)st.st_size != sizeof(struct state_file))
		return error_set(err, ERR_INVALID, "'%s': expected %zu bytes, found %lld",
			s->path, sizeof(struct state_file), (long long)st.st_size);
	s->file = mmap(NULL, sizeof(struct state_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		0);
	if (s->file == MAP_FAILED)
		return error_sys(err, errno, "map '%s'", s->path);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	if (s->file->magic != SIM_STATE_MAGIC || s->file->version != SIM_STATE_VERSION) {
		(void)error_set(err, ERR_INVALID,
			"'%s' is of another version of gpuslice; remove its directory",
			s->path);
		(void)munmap(s->file, sizeof(struct state_file));
		return -1;
	}
	*ret = STEAL_PTR(s);
	return 0;
}

struct sim_state *sim_state_close(struct sim_state *s)
{
	if (s) {
		(void)munmap(s->file, sizeof(struct state_file));
		free(s);
	}
	return NULL;
}

bool sim_state_is_current(const struct sim_state *s, const char *dir)
{
	char path[SIM_PATH_MAX];
	struct stat st;

	return state_path(dir, path, NULL) == 0 && !strcmp(path, s->path) &&
	       stat(path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
}

const char *sim_state_dir(const struct sim_state *s)
{
	return s->dir;
}

uint64_t sim_state_generation(const struct sim_state *s)
{
	return atomic_load_explicit(&s->file->generation, memory_order_acquire);
}

/* --- words --- */

/* Shared memory is copied by relaxed atomic words; the generation counter orders them. */
static void words_load(void *to, const _Atomic uint64_t *from, size_t bytes)
{
	char *p = to;

	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t w = atomic_load_explicit(&from[i], memory_order_relaxed);

		memcpy(p + i * 8, &w, 8);
	}
}

static void words_store(_Atomic uint64_t *to, const void *from, size_t bytes)
{
	const char *p = from;

	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t w;

		memcpy(&w, p + i * 8, 8);
		atomic_store_explicit(&to[i], w, memory_order_relaxed);
	}
}

static uint32_t clamp_slots(uint32_t n)
{
	return n > SIM_MAX_GPUS ? SIM_MAX_GPUS : n;
}

static void node_store(_Atomic uint64_t *to, const struct sim_node *node, uint32_t slots)
{
	words_store(to, node,
		offsetof(struct sim_node, gpus) + clamp_slots(slots) * sizeof(struct sim_gpu));
}

void sim_state_read_bare(const struct sim_state *s, const struct sim_part *parts, size_t n)
{
	struct state_file *f = s->file;
	uint64_t before = atomic_load_explicit(&f->generation, memory_order_acquire), after;

	for (;;) {
		for (size_t i = 0; i < n; i++)
			words_load(parts[i].to, f->copies[before & 1] + parts[i].offset / 8,
				parts[i].len);
		/* The loads above come before this one; pairs with the fence in publish_state_txn(). */
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&f->generation, memory_order_relaxed);
		/*
		 * While the counter does not move, a writer touches only the other copy. After one step the next
		 * writer may already be in the copy that was read.
		 */
		if (after == before)
			return;
		before = atomic_load_explicit(&f->generation, memory_order_acquire);
	}
}

/* Memory that CUDA uses. */

#define USAGE_TRIES 100000 /* a limit: a writer killed in the middle must not stop readers */

void sim_usage_write(struct sim_state *s, uint32_t slot, const struct sim_usage *rows, size_t n,
	uint64_t total)
{
	struct usage_table *t = &s->file->usage[slot % SIM_MAX_GPUS];
	uint32_t seq = atomic_load_explicit(&t->seq, memory_order_relaxed) | 1;

	n = n > SIM_MAX_PROCESSES ? SIM_MAX_PROCESSES : n;
	atomic_store_explicit(&t->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < n; i++) {
		atomic_store_explicit(&t->rows[i].pid, rows[i].pid, memory_order_relaxed);
		atomic_store_explicit(&t->rows[i].bytes, rows[i].bytes, memory_order_relaxed);
	}
	atomic_store_explicit(&t->count, (uint32_t)n, memory_order_relaxed);
	atomic_store_explicit(&t->total, total, memory_order_relaxed);
	atomic_store_explicit(&t->seq, seq + 1, memory_order_release);
}

size_t sim_usage_read(const struct sim_state *s, uint32_t slot, struct sim_usage *rows,
	uint64_t *total)
{
	const struct usage_table *t = &s->file->usage[slot % SIM_MAX_GPUS];
	size_t n = 0;

	for (int i = 0; i < USAGE_TRIES; i++) {
		uint32_t seq = atomic_load_explicit(&t->seq, memory_order_acquire);

		n = atomic_load_explicit(&t->count, memory_order_relaxed);
		n = n > SIM_MAX_PROCESSES ? SIM_MAX_PROCESSES : n;
		*total = atomic_load_explicit(&t->total, memory_order_relaxed);
		for (size_t k = 0; rows && k < n; k++)
			rows[k] = (struct sim_usage){
				.pid = atomic_load_explicit(&t->rows[k].pid,
					memory_order_relaxed),
				.bytes = atomic_load_explicit(&t->rows[k].bytes,
					memory_order_relaxed),
			};
		atomic_thread_fence(memory_order_acquire);
		if (!(seq & 1) && atomic_load_explicit(&t->seq, memory_order_relaxed) == seq)
			break;
	}
	return n;
}

_Atomic uint64_t *sim_state_load_cell(const struct sim_state *s, uint32_t slot)
{
	return s->file->load[slot % SIM_MAX_GPUS];
}

#define GPU_AT(slot) (offsetof(struct sim_node, gpus) + (slot) * sizeof(struct sim_gpu))

/* Whether @part holds bytes @from to @to of the node. */
static bool has_part_bytes(const struct sim_part *part, size_t from, size_t to)
{
	return part->offset <= from && part->offset + part->len >= to;
}

static void add_usage_rows(const struct sim_part *part, size_t gpu_at,
	const struct sim_usage *rows, size_t n)
{
	char *at = (char *)part->to + (gpu_at - part->offset);
	struct sim_process *processes =
		(struct sim_process *)(void *)(at + offsetof(struct sim_gpu, processes));
	uint32_t count;

	memcpy(&count, at + offsetof(struct sim_gpu, process_count), sizeof(count));
	for (uint32_t i = 0; i < count && i < SIM_MAX_PROCESSES; i++)
		for (size_t k = 0; k < n; k++)
			if (processes[i].pid == rows[k].pid &&
				processes[i].kind != SIM_PROCESS_GRAPHICS)
				processes[i].memory_bytes = rows[k].bytes;
}

static void add_usage(const struct sim_state *s, const struct sim_part *part)
{
	struct sim_usage rows[SIM_MAX_PROCESSES];
	size_t first = part->offset < GPU_AT(0)
			       ? 0
			       : (part->offset - GPU_AT(0)) / sizeof(struct sim_gpu);

	for (size_t slot = first;
		slot < SIM_MAX_GPUS && GPU_AT(slot) < part->offset + part->len; slot++) {
		size_t sum_at = GPU_AT(slot) + offsetof(struct sim_gpu, process_memory);
		bool all = has_part_bytes(part, GPU_AT(slot), GPU_AT(slot + 1));
		uint64_t total = 0, sum;
		size_t n;

		if (!has_part_bytes(part, sum_at, sum_at + sizeof(sum)))
			continue;
		n = sim_usage_read(s, (uint32_t)slot, all ? rows : NULL, &total);
		if (!n && !total)
			continue;
		memcpy(&sum, (char *)part->to + (sum_at - part->offset), sizeof(sum));
		sum += total;
		memcpy((char *)part->to + (sum_at - part->offset), &sum, sizeof(sum));
		if (all)
			add_usage_rows(part, GPU_AT(slot), rows, n);
	}
}

void sim_state_read(const struct sim_state *s, const struct sim_part *parts, size_t n)
{
	sim_state_read_bare(s, parts, n);
	for (size_t i = 0; i < n; i++)
		add_usage(s, &parts[i]);
}

/* --- creating --- */

static int write_new(int fd, const struct sim_node *node)
{
	struct state_file *f;

	if (ftruncate(fd, sizeof(*f)) < 0)
		return -1;
	f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (f == MAP_FAILED)
		return -1;
	f->magic = SIM_STATE_MAGIC;
	f->version = SIM_STATE_VERSION;
	f->size_bytes = sizeof(*f);
	node_store(f->copies[0], node, node->head.info.slot_count);
	return munmap(f, sizeof(*f));
}

int sim_state_create(const char *dir, const struct sim_node *node, struct error *err)
{
	char path[SIM_PATH_MAX], temp[SIM_PATH_MAX + 16];
	CLEANUP(closep) int fd = -1;
	int r = 0;

	if (state_path(dir, path, err) < 0)
		return -1;
	(void)snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "create '%s'", temp);
	/* link() refuses an existing name: exactly one of several creators wins. */
	if (write_new(fd, node) < 0)
		r = error_sys(err, errno, "write '%s'", temp);
	else if (link(temp, path) < 0)
		r = errno == EEXIST ? SIM_STATE_E_EXISTS
				    : error_sys(err, errno, "create '%s'", path);
	(void)unlink(temp);
	return r;
}

/* --- writing --- */

/*
 * Keeps fork() out of a transaction. Else the child would inherit the locked descriptor and hold the lock until
 * its end. A writer takes the mutex before the file lock.
 */
static pthread_mutex_t writer_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void lock_writer_before_fork(void)
{
	(void)pthread_mutex_lock(&writer_mutex);
}

static void unlock_writer_after_fork(void)
{
	(void)pthread_mutex_unlock(&writer_mutex);
}

static void register_writer_atfork(void)
{
	(void)pthread_atfork(lock_writer_before_fork, unlock_writer_after_fork,
		unlock_writer_after_fork);
}

/* flock belongs to the open file, so each transaction opens its own. */
static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), r;

	if (fd < 0)
		return -1;
	do
		r = flock(fd, LOCK_EX);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return fd;
	closep(&fd);
	return -1;
}

int sim_txn_begin(struct sim_state *s, struct sim_txn *txn, struct error *err)
{
	struct state_file *f = s->file;
	struct sim_node *node;

	(void)pthread_once(&fork_once, register_writer_atfork);
	*txn = (struct sim_txn)SIM_TXN_INIT;
	node = calloc(1, sizeof(*node));
	if (!node)
		return error_nomem(err);
	(void)pthread_mutex_lock(&writer_mutex);
	txn->lock_fd = lock_file(s->path);
	if (txn->lock_fd < 0) {
		int r = error_sys(err, errno, "lock '%s'", s->path);

		(void)pthread_mutex_unlock(&writer_mutex);
		free(node);
		return r;
	}
	txn->state = s;
	txn->node = node;
	words_load(node, f->copies[atomic_load(&f->generation) & 1], sizeof(node->head));
	node->head.info.slot_count = clamp_slots(node->head.info.slot_count);
	words_load(node, f->copies[atomic_load(&f->generation) & 1],
		offsetof(struct sim_node, gpus) +
			node->head.info.slot_count * sizeof(struct sim_gpu));
	return 0;
}

void sim_txn_post(struct sim_txn *txn, struct sim_event event)
{
	if (txn->event_count < SIM_TXN_EVENTS)
		txn->events[txn->event_count++] = event;
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void push_ring_event(struct state_file *f, const struct sim_event *event)
{
	uint64_t number = atomic_load_explicit(&f->ring_head, memory_order_relaxed);
	struct ring_slot *slot = &f->ring[number % SIM_RING_EVENTS];

	atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	words_store(slot->words, event, sizeof(*event));
	atomic_store_explicit(&slot->number, number + 1, memory_order_release);
	atomic_store_explicit(&f->ring_head, number + 1, memory_order_release);
	atomic_store_explicit(&f->ring_word, (uint32_t)(number + 1), memory_order_release);
}

static void publish_state_txn(struct sim_txn *txn)
{
	struct state_file *f = txn->state->file;
	uint64_t generation = atomic_load_explicit(&f->generation, memory_order_relaxed);

	/*
	 * The copy written here is that of generation - 1. A reader that still copies that generation may load a
	 * new word. Because of this fence the reader then sees the counter at @generation at least, and starts
	 * again.
	 */
	atomic_thread_fence(memory_order_release);
	node_store(f->copies[(generation + 1) & 1], txn->node, txn->node->head.info.slot_count);
	atomic_store_explicit(&f->generation, generation + 1, memory_order_release);
	for (uint32_t i = 0; i < txn->event_count; i++)
		push_ring_event(f, &txn->events[i]);
	if (txn->event_count)
		futex_wake_all(&f->ring_word);
}

void sim_txn_commit(struct sim_txn *txn)
{
	publish_state_txn(txn);
	sim_txn_end(txn);
}

int sim_txn_commit_files(struct sim_txn *txn, uint32_t slot, struct error *err)
{
	struct state_file *f = txn->state->file;
	bool repair = atomic_exchange(&f->files_open, 1);

	if (sim_caps_add(txn->state->dir, txn->node, slot, repair, err) < 0)
		return -1;
	publish_state_txn(txn);
	sim_caps_remove(txn->state->dir, txn->node);
	atomic_store(&f->files_open, 0);
	sim_txn_end(txn);
	return 0;
}

void sim_txn_end(struct sim_txn *txn)
{
	if (!txn->node)
		return;
	free(STEAL_PTR(txn->node));
	closep(&txn->lock_fd);
	txn->lock_fd = -1;
	(void)pthread_mutex_unlock(&writer_mutex);
}

/* --- events --- */

uint64_t sim_ring_head(const struct sim_state *s)
{
	return atomic_load_explicit(&s->file->ring_head, memory_order_acquire);
}

bool sim_ring_next(const struct sim_state *s, uint64_t *cursor, struct sim_event *ret)
{
	struct state_file *f = s->file;

	for (;;) {
		uint64_t head = sim_ring_head(s);
		struct ring_slot *slot;

		if (*cursor + SIM_RING_EVENTS < head)
			*cursor = head - SIM_RING_EVENTS;
		if (*cursor >= head)
			return false;
		slot = &f->ring[*cursor % SIM_RING_EVENTS];
		if (atomic_load_explicit(&slot->number, memory_order_acquire) == *cursor + 1) {
			words_load(ret, slot->words, sizeof(*ret));
			atomic_thread_fence(memory_order_acquire);
			if (atomic_load_explicit(&slot->number, memory_order_relaxed) ==
				*cursor + 1) {
				(*cursor)++;
				return true;
			}
		}
		/* The event was overwritten during the read, or its writer died in the middle: take the
		 * next. */
		(*cursor)++;
	}
}

static void futex_wait_until(const _Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	struct timespec at = { (time_t)(deadline_ns / NS_PER_SEC),
		(long)(deadline_ns % NS_PER_SEC) };

	/* Not _PRIVATE: the waker is another process. The deadline is of CLOCK_MONOTONIC. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen,
		deadline_ns == UINT64_MAX ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
}

void sim_ring_wait(const struct sim_state *s, uint64_t head, uint64_t deadline_ns)
{
	futex_wait_until(&s->file->ring_word, (uint32_t)head, deadline_ns);
}

/* --- hanging --- */

static uint64_t add_hang_ns(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

void sim_hang_set(struct sim_state *s, uint32_t slot, uint64_t ns, uint32_t calls,
	uint64_t for_ns)
{
	struct hang_cell *c = &s->file->hang[slot];

	atomic_store(&c->ns, 0);
	atomic_store(&c->calls, calls);
	atomic_store(&c->until_ns, add_hang_ns(time_mono_ns(), for_ns));
	atomic_store(&c->ns, ns);
	atomic_fetch_add(&c->word, 1);
	futex_wake_all(&c->word);
}

uint64_t sim_hang_ns(const struct sim_state *s, uint32_t slot)
{
	struct hang_cell *c = &s->file->hang[slot];
	uint64_t ns = atomic_load_explicit(&c->ns, memory_order_acquire);

	return ns && atomic_load(&c->calls) && time_mono_ns() < atomic_load(&c->until_ns) ? ns
											  : 0;
}

void sim_hang_wait(const struct sim_state *s, uint32_t slot)
{
	struct hang_cell *c = &s->file->hang[slot];
	uint32_t word = atomic_load(&c->word), calls = atomic_load(&c->calls);
	uint64_t ns = sim_hang_ns(s, slot), deadline;

	if (!ns)
		return;
	while (calls != SIM_HANG_CALLS) {
		if (calls == 0)
			return;
		if (atomic_compare_exchange_weak(&c->calls, &calls, calls - 1))
			break;
	}
	deadline = add_hang_ns(time_mono_ns(), ns);
	while (time_mono_ns() < deadline && atomic_load(&c->word) == word)
		futex_wait_until(&c->word, word, deadline);
}

/* --- counting --- */

void sim_count(const struct sim_state *s, enum sim_count kind)
{
	atomic_fetch_add_explicit(&s->file->counts[kind], 1, memory_order_relaxed);
}

uint64_t sim_count_read(const struct sim_state *s, enum sim_count kind)
{
	return atomic_load_explicit(&s->file->counts[kind], memory_order_relaxed);
}

/* --- faults of CUDA --- */

void sim_cuda_fault_set(struct sim_state *s, uint32_t slot, enum sim_cuda_fault kind,
	uint64_t at, uint32_t times, uint32_t value)
{
	struct fault_cell *c = &s->file->faults[slot % SIM_MAX_GPUS][kind];

	atomic_store(&c->times, 0);
	atomic_store(&c->at, at ? at : 1);
	atomic_store(&c->value, value);
	atomic_store(&c->times, times);
}

bool sim_cuda_fault_hit(struct sim_state *s, uint32_t slot, enum sim_cuda_fault kind,
	uint32_t *value)
{
	struct fault_cell *c = &s->file->faults[slot % SIM_MAX_GPUS][kind];
	uint32_t times = atomic_load_explicit(&c->times, memory_order_acquire);

	if (!times)
		return false;
	if (atomic_load(&c->at) > 1) {
		atomic_fetch_sub(&c->at, 1);
		return false;
	}
	*value = atomic_load(&c->value);
	/* If the fault was set again meanwhile, this hit was the last one of the old setting. */
	if (times != SIM_HANG_CALLS)
		(void)atomic_compare_exchange_strong(&c->times, &times, times - 1);
	return true;
}

uint32_t sim_cuda_fault_armed(const struct sim_state *s, uint32_t slot,
	enum sim_cuda_fault kind, uint64_t *at, uint32_t *value)
{
	const struct fault_cell *c = &s->file->faults[slot % SIM_MAX_GPUS][kind];

	*at = atomic_load(&c->at);
	*value = atomic_load(&c->value);
	return atomic_load(&c->times);
}
