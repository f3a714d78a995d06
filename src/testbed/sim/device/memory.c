/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/device/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "testbed/sim/cuda/wire.h"

#define BUCKETS    4096 /* a power of two; consecutive ids spread evenly */
#define EPOLL_ROOM 16

struct memory_hold {
	struct device_memory *memory;
	struct memory_holder *holder;
	uint32_t references;
	struct memory_hold *next_of_memory; /* younger hold */
	struct memory_hold *next, **at;     /* of the holder; *at is this hold */
};

struct device_memory {
	struct memory_facts facts;
	struct memory_hold *holds; /* the oldest first */
	uint32_t exports;
	struct device_memory *next; /* in its bucket */
};

/* A pipe. The daemon holds the read end, and sees when no process holds the write end any more. */
struct export
{
	struct device_memory *memory;
	int fd;
	dev_t dev;
	ino_t ino;
	struct export *next;
};

struct memory_table {
	memory_moved_fn *moved;
	void *arg;
	uint64_t last_id;
	struct device_memory *buckets[BUCKETS];
	struct export *exports;
	uint32_t export_count;
	int epoll;
};

struct memory_table *memory_table_new(memory_moved_fn *moved, void *arg)
{
	struct memory_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->moved = moved;
	table->arg = arg;
	table->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (table->epoll < 0) {
		free(table);
		return NULL;
	}
	return table;
}

static struct device_memory **find_memory_link(struct memory_table *table, uint64_t id)
{
	struct device_memory **at = &table->buckets[id % BUCKETS];

	while (*at && (*at)->facts.id != id)
		at = &(*at)->next;
	return at;
}

static struct memory_holder *find_memory_owner(const struct device_memory *m)
{
	return m->holds ? m->holds->holder : NULL;
}

static void memory_free(struct memory_table *table, struct device_memory *m)
{
	*find_memory_link(table, m->facts.id) = m->next;
	closep(&m->facts.fd);
	free(m);
}

struct memory_table *memory_table_free(struct memory_table *table)
{
	if (!table)
		return NULL;
	for (struct export *x = table->exports, *next; x; x = next) {
		next = x->next;
		closep(&x->fd);
		free(x);
	}
	for (size_t i = 0; i < BUCKETS; i++)
		while (table->buckets[i])
			memory_free(table, table->buckets[i]);
	closep(&table->epoll);
	free(table);
	return NULL;
}

/* --- holding --- */

static struct memory_hold *find_memory_hold(const struct device_memory *m,
	const struct memory_holder *holder)
{
	struct memory_hold *h = m->holds;

	while (h && h->holder != holder)
		h = h->next_of_memory;
	return h;
}

static bool add_memory_hold(struct memory_table *table, struct device_memory *m,
	struct memory_holder *holder)
{
	struct memory_hold *h = find_memory_hold(m, holder), **end = &m->holds;

	if (h) {
		if (h->references == UINT32_MAX)
			return false;
		h->references++;
		return true;
	}
	if (holder->count >= SIM_DEVICE_MEMORIES_MAX)
		return false;
	h = calloc(1, sizeof(*h));
	if (!h)
		return false;
	*h = (struct memory_hold){ .memory = m, .holder = holder, .references = 1 };
	while (*end)
		end = &(*end)->next_of_memory;
	*end = h;
	h->next = holder->holds;
	if (h->next)
		h->next->at = &h->next;
	h->at = &holder->holds;
	holder->holds = h;
	holder->count++;
	if (m->holds == h)
		table->moved(table->arg, &m->facts, NULL, holder, true);
	return true;
}

static void memory_settle(struct memory_table *table, struct device_memory *m,
	struct memory_holder *old_owner)
{
	bool lives = m->holds || m->exports;

	if (!lives || find_memory_owner(m) != old_owner)
		table->moved(table->arg, &m->facts, old_owner, find_memory_owner(m), lives);
	if (!lives)
		memory_free(table, m);
}

static void release_memory_hold(struct memory_table *table, struct memory_hold *h)
{
	struct device_memory *m = h->memory;
	struct memory_holder *old_owner = find_memory_owner(m);
	struct memory_hold **at = &m->holds;

	while (*at && *at != h)
		at = &(*at)->next_of_memory;
	*at = h->next_of_memory;
	*h->at = h->next;
	if (h->next)
		h->next->at = h->at;
	h->holder->count--;
	free(h);
	memory_settle(table, m, old_owner);
}

bool memory_release(struct memory_table *table, struct memory_holder *holder, uint64_t id)
{
	struct device_memory *m = *find_memory_link(table, id);
	struct memory_hold *h = m ? find_memory_hold(m, holder) : NULL;

	if (!h)
		return false;
	if (--h->references == 0)
		release_memory_hold(table, h);
	return true;
}

void memory_release_all(struct memory_table *table, struct memory_holder *holder)
{
	while (holder->holds)
		release_memory_hold(table, holder->holds);
}

/* --- making --- */

static int create_contents_file(uint64_t bytes)
{
	CLEANUP(closep)
	int fd = memfd_create("gpuslice-sim-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -1;
	return steal_fd(&fd);
}

const struct memory_facts *memory_new(struct memory_table *table, struct memory_holder *holder,
	uint32_t slot, uint64_t bytes, uint32_t flags)
{
	struct device_memory *m = calloc(1, sizeof(*m)), **at;

	if (!m)
		return NULL;
	m->facts = (struct memory_facts){ .id = ++table->last_id,
		.bytes = bytes,
		.slot = slot,
		.flags = flags,
		.fd = flags & SIM_DEVICE_MEM_NO_FD ? -1 : create_contents_file(bytes) };
	if ((m->facts.fd < 0 && !(flags & SIM_DEVICE_MEM_NO_FD)) ||
		getrandom(&m->facts.cookie, sizeof(m->facts.cookie), GRND_NONBLOCK) < 0) {
		closep(&m->facts.fd);
		free(m);
		return NULL;
	}
	at = find_memory_link(table, m->facts.id);
	m->next = *at;
	*at = m;
	if (add_memory_hold(table, m, holder))
		return &m->facts;
	memory_free(table, m);
	return NULL;
}

const struct memory_facts *memory_open(struct memory_table *table, struct memory_holder *holder,
	uint64_t id, uint64_t cookie)
{
	struct device_memory *m = *find_memory_link(table, id);

	return m && m->facts.cookie == cookie && add_memory_hold(table, m, holder) ? &m->facts
										   : NULL;
}

/* --- exporting --- */

int memory_export(struct memory_table *table, struct memory_holder *holder, uint64_t id,
	uint32_t max)
{
	struct device_memory *m = *find_memory_link(table, id);
	CLEANUP(freep) struct export *x = NULL;
	CLEANUP(closep) int read_end = -1;
	CLEANUP(closep) int write_end = -1;
	struct epoll_event ev = { .events = 0 }; /* epoll always reports a hang-up */
	struct stat st;
	int ends[2];

	if (!m || !find_memory_hold(m, holder) || table->export_count >= max ||
		pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	read_end = ends[0];
	write_end = ends[1];
	x = calloc(1, sizeof(*x));
	if (!x || fstat(read_end, &st) < 0)
		return -1;
	ev.data.ptr = x;
	if (epoll_ctl(table->epoll, EPOLL_CTL_ADD, read_end, &ev) < 0)
		return -1;
	*x = (struct export){ .memory = m,
		.fd = steal_fd(&read_end),
		.dev = st.st_dev,
		.ino = st.st_ino,
		.next = table->exports };
	table->exports = STEAL_PTR(x);
	table->export_count++;
	m->exports++;
	return steal_fd(&write_end);
}

const struct memory_facts *memory_import(struct memory_table *table,
	struct memory_holder *holder, int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	for (struct export *x = table->exports; x; x = x->next)
		if (x->dev == st.st_dev && x->ino == st.st_ino)
			return add_memory_hold(table, x->memory, holder) ? &x->memory->facts
									 : NULL;
	return NULL;
}

uint32_t memory_exports(const struct memory_table *table)
{
	return table->export_count;
}

int memory_exports_fd(const struct memory_table *table)
{
	return table->epoll;
}

static void export_end(struct memory_table *table, struct export *x)
{
	struct export **at = &table->exports;
	struct device_memory *m = x->memory;
	struct memory_holder *owner = find_memory_owner(m);

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	table->export_count--;
	closep(&x->fd); /* the kernel also removes the descriptor from the epoll instance */
	free(x);
	m->exports--;
	memory_settle(table, m, owner);
}

bool memory_exports_closed(struct memory_table *table)
{
	uint32_t before = table->export_count;
	struct epoll_event ev[EPOLL_ROOM];
	int n;

	if (!before)
		return false;
	do {
		n = epoll_wait(table->epoll, ev, EPOLL_ROOM, 0);
		for (int i = 0; i < n; i++)
			export_end(table, ev[i].data.ptr);
	} while (n == EPOLL_ROOM);
	return table->export_count != before;
}
