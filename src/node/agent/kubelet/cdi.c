/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/cdi.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define CDI_CHECK_NS    (10 * NS_PER_SEC)
#define SEARCH_EVERY_NS (600 * NS_PER_SEC) /* for what no stat() shows */
#define KEY_MAX_BYTES   (1U << 20)
#define STAMP_MAX_BYTES (1U << 20)

void agent_cdi_init(struct agent_cdi *c, const struct facts *facts, const char *sysfs_root,
	const char *dir)
{
	*c = (struct agent_cdi){ .facts = facts,
		.sysfs_root = sysfs_root,
		.dir = dir ? dir : CDI_DIR,
		.watched = STRV_INIT,
		.stamp = BUF_INIT(STAMP_MAX_BYTES),
		.key = BUF_INIT(KEY_MAX_BYTES) };
}

void agent_cdi_fini(struct agent_cdi *c)
{
	buf_fini(&c->key);
	buf_fini(&c->stamp);
	strv_fini(&c->watched);
}

static bool has_cdi(const struct config *c)
{
	return c->device_lists & (DEVICE_LIST_CDI_ANNOTATIONS | DEVICE_LIST_CDI_CRI);
}

static bool is_cdi_wanted(const struct agent_cdi *c)
{
	return c->facts->decided && has_cdi(c->facts->config);
}

/* --- when --- */

/* Everything that the specifications depend on, except files. */
static void format_cdi_key(const struct facts *facts, struct buf *b)
{
	const struct inventory *inv = facts->node.inv;

	buf_printf(b, "%" PRIu64 " %s\n", facts->config_generation, inv->driver_version);
	for (uint32_t i = 0; i < inv->n; i++) {
		const struct gpu *g = &inv->gpus[i];

		buf_printf(b, "%s %" PRIu32 " %d %" PRIu32 " %d %d %s\n", g->uuid, g->index,
			g->has_minor, g->minor, g->mig_enabled, g->fault == GPU_FAULT_GONE,
			g->bus_id);
	}
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];

		buf_printf(b, "%s %" PRIu32 ":%" PRIu32 " %s %d %d %" PRIu32 " %" PRIu32 "\n",
			m->uuid, m->gpu, m->index, m->profile, m->reason[0] != '\0',
			m->has_minors, m->gi_minor, m->ci_minor);
	}
}

/* For a device node, its identity only: the times of some nodes change with their use. */
static void stamp_path(struct buf *b, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		buf_puts(b, "-\n");
		return;
	}
	buf_printf(b, "%ju %ju %o %u %ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
		st.st_mode, st.st_gid, (uintmax_t)st.st_rdev);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		buf_printf(b, " %jd %jd.%09ld", (intmax_t)st.st_size,
			(intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	buf_putc(b, '\n');
}

static void make_stamp(const struct agent_cdi *c, struct buf *b)
{
	for (size_t i = 0; i < c->watched.n; i++)
		stamp_path(b, c->watched.v[i]);
}

/* Copies @now to *last. True: @now differs. */
static bool update_cdi_stamp(struct buf *last, const struct buf *now)
{
	if (buf_ok(now) && buf_ok(last) && now->len == last->len &&
		memcmp(buf_str(now), buf_str(last), now->len) == 0)
		return false;
	buf_clear(last);
	buf_add(last, buf_str(now), now->len);
	return true;
}

/*
 * The agent makes the stamp before the search, with the paths of the last search. So no change during a search
 * is missed. The second check after the start always searches again.
 */
static bool is_due(struct agent_cdi *c)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KEY_MAX_BYTES);
	CLEANUP(buf_fini) struct buf stamp = BUF_INIT(STAMP_MAX_BYTES);
	uint64_t now = time_mono_ns();
	bool due;

	format_cdi_key(c->facts, &key);
	due = update_cdi_stamp(&c->key, &key);
	if (!due && c->checked_ns && now - c->checked_ns < CDI_CHECK_NS)
		return false;
	c->checked_ns = now;
	make_stamp(c, &stamp);
	due |= update_cdi_stamp(&c->stamp, &stamp);
	due |= c->watched.n == 0 || now - c->searched_ns >= SEARCH_EVERY_NS ||
	       c->error.code != ERR_NONE || c->other_error.code != ERR_NONE;
	if (due)
		c->searched_ns = now;
	return due;
}

uint64_t agent_cdi_due(const struct agent_cdi *c)
{
	return c->checked_ns ? c->checked_ns + CDI_CHECK_NS : UINT64_MAX;
}

/* --- what --- */

/* Whether the file has this text already. A file that cannot be read is written again. */
static bool is_cdi_file_current(const char *path, const char *text)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CDI_SPEC_MAX_BYTES);

	return file_read(path, &b, NULL) == 0 && b.len == strlen(text) &&
	       memcmp(buf_str(&b), text, b.len) == 0;
}

static int write_class(struct agent_cdi *c, enum cdi_class class_,
	const struct cdi_found *found, const struct config *config, struct error *err)
{
	CLEANUP(freep) char *text = NULL;
	char name[CDI_FILE_NAME_MAX], path[PATH_MAX];
	int r = cdi_spec_new(&text, class_, found, config, err);

	if (r != 0)
		return r;
	cdi_file_name(name, class_);
	if (path_join(path, sizeof(path), c->dir, name, err) < 0)
		return -1;
	if (is_cdi_file_current(path, text))
		return 0;
	if (dir_make(c->dir, 0755, err) < 0 ||
		file_write_atomic(path, text, strlen(text), 0644, err) < 0)
		return -1;
	log_info("CDI specification written", LOG_STR("file", path),
		LOG_UINT("devices", found->n_devices[class_]),
		LOG_STR("driver", found->driver_version), LOG_UINT("bytes", strlen(text)));
	return 0;
}

/* Watches the paths that the search has read, and the specification files themselves. */
static int update_cdi_watched(struct agent_cdi *c, struct cdi_found *found, struct error *err)
{
	char name[CDI_FILE_NAME_MAX], path[PATH_MAX];

	for (size_t i = 0; i < CDI_CLASSES; i++) {
		cdi_file_name(name, (enum cdi_class)i);
		if (path_join(path, sizeof(path), c->dir, name, err) < 0 ||
			strv_add(&found->watched, path, err) < 0)
			return -1;
	}
	strv_fini(&c->watched);
	c->watched = found->watched;
	found->watched = (struct strv)STRV_INIT;
	return 0;
}

/* @err is for the GPUs, @other for the other classes. */
static void write_all(struct agent_cdi *c, struct error *err, struct error *other)
{
	CLEANUP(cdi_found_freep) struct cdi_found *found = NULL;
	const struct config *config = c->facts->config;

	/* Without the right driver files, the files written before would name wrong ones. */
	memset(c->written, 0, sizeof(c->written));
	if (cdi_search(&found, config, c->facts->node.inv, c->sysfs_root, err) < 0) {
		*other = c->other_error; /* nothing new is known */
		return;
	}
	for (size_t i = 0; i < CDI_CLASSES; i++) {
		struct error why = ERROR_INIT;
		int r = write_class(c, (enum cdi_class)i, found, config, &why);

		c->written[i] = r == 0;
		if (r < 0)
			error_copy(i == CDI_GPU ? err : other, &why);
	}
	/* Without the list, every check is a search. */
	if (update_cdi_watched(c, found, NULL) < 0)
		strv_clear(&c->watched);
}

/* Copies @now to *last and logs what is new. */
static void log_cdi_error_change(struct error *last, const struct error *now, const char *again)
{
	if (now->code != ERR_NONE && strcmp(last->msg, now->msg) != 0)
		log_error("CDI specification not written, trying again",
			LOG_STR("reason", now->msg));
	else if (now->code == ERR_NONE && last->code != ERR_NONE)
		log_info(again);
	*last = *now;
}

void agent_cdi_sync(struct agent_cdi *c)
{
	struct error err = ERROR_INIT, other = ERROR_INIT;

	if (!is_cdi_wanted(c) || !c->facts->node.inv) {
		memset(c->written, 0, sizeof(c->written));
		error_clear(&c->error);
		error_clear(&c->other_error);
		strv_clear(&c->watched);
		c->checked_ns = 0;
		return;
	}
	if (!is_due(c))
		return;
	write_all(c, &err, &other);
	log_cdi_error_change(&c->error, &err, "CDI specifications are in place again");
	log_cdi_error_change(&c->other_error, &other,
		"CDI specifications of other devices are in place again");
}

/* --- for an allocation --- */

/* Version 4, RFC 9562. */
static int random_uuid(char *ret, struct error *err)
{
	uint8_t b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return error_sys(err, errno, "get random bytes");
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(b); i++) {
		(void)snprintf(ret, 3, "%02x", b[i]);
		ret += 2;
		if (i == 3 || i == 5 || i == 7 || i == 9)
			*ret++ = '-';
	}
	*ret = '\0';
	return 0;
}

int agent_cdi_facts(const struct agent_cdi *c, struct alloc_cdi *ret, struct error *err)
{
	*ret = (struct alloc_cdi){
		.gpu = c->written[CDI_GPU],
		.why = c->error.code ? c->error.msg : "no GPU has a device node to give",
		.imex_channel = c->written[CDI_IMEX_CHANNEL],
		.gdrcopy = c->written[CDI_GDRCOPY],
		.gds = c->written[CDI_GDS],
		.mofed = c->written[CDI_MOFED],
	};
	return has_cdi(c->facts->config) ? random_uuid(ret->response_id, err) : 0;
}
