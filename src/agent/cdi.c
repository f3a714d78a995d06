/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cdi.h"

#include "agent/internal.h"
#include "base/fd.h"
#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define LOOK_EVERY_NS (10 * NS_PER_SEC)
#define KEY_MAX_BYTES (GPU_NODE_MAX * 256)

void agent_cdi_init(struct agent_cdi *c, const char *dir)
{
	*c = (struct agent_cdi){ .dir = dir ? dir : CDI_DIR, .key = BUF_INIT(KEY_MAX_BYTES) };
}

void agent_cdi_fini(struct agent_cdi *c)
{
	buf_fini(&c->key);
}

static bool wanted(const struct agent *a)
{
	return a->config.decided && a->config.config->device_lists &
					    (DEVICE_LIST_CDI_ANNOTATIONS | DEVICE_LIST_CDI_CRI);
}

/* --- when --- */

/* All that the specifications depend on, but for files. */
static void make_key(const struct agent *a, struct buf *b)
{
	const struct inventory *inv = a->node.inv;

	buf_printf(b, "%" PRIu64 " %s\n", a->config.generation, inv->driver_version);
	for (uint32_t i = 0; i < inv->n; i++) {
		const struct gpu *g = &inv->gpus[i];

		buf_printf(b, "%s %" PRIu32 " %d %" PRIu32 " %d %d %s\n", g->uuid, g->index,
			g->has_minor, g->minor, g->mig_enabled, g->fault == GPU_FAULT_GONE,
			g->bus_id);
	}
}

static bool is_due(struct agent *a)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KEY_MAX_BYTES);
	struct agent_cdi *c = &a->cdi;
	uint64_t now = time_mono_ns();
	bool changed;

	make_key(a, &key);
	changed = key.len != c->key.len || strcmp(buf_str(&key), buf_str(&c->key)) != 0;
	if (!changed && c->looked_ns && now - c->looked_ns < LOOK_EVERY_NS)
		return false;
	c->looked_ns = now;
	buf_clear(&c->key);
	buf_puts(&c->key, buf_str(&key));
	return true;
}

/* --- what --- */

/* The file has this text already. One that cannot be read is written anew. */
static bool is_same(const char *path, const char *text)
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
	if (is_same(path, text))
		return 0;
	if (dir_make(c->dir, 0755, err) < 0 ||
		file_write_atomic(path, text, strlen(text), 0644, err) < 0)
		return -1;
	log_info("CDI specification written", LOG_STR("file", path),
		LOG_UINT("devices", found->n_devices[class_]),
		LOG_STR("driver", found->driver_version), LOG_UINT("bytes", strlen(text)));
	return 0;
}

static int write_all(struct agent *a, struct error *err)
{
	CLEANUP(cdi_found_freep) struct cdi_found *found = NULL;
	const struct config *config = a->config.config;
	struct agent_cdi *c = &a->cdi;
	int failed = 0;

	/* Without the right driver files, what was written before would give wrong ones. */
	memset(c->written, 0, sizeof(c->written));
	if (cdi_search(&found, config, a->node.inv, a->sysfs_root, err) < 0)
		return -1;
	for (size_t i = 0; i < CDI_CLASSES; i++) {
		struct error why = ERROR_INIT;
		int r = write_class(c, (enum cdi_class)i, found, config, &why);

		c->written[i] = r == 0;
		if (r < 0) {
			failed = -1;
			error_copy(err, &why);
		}
	}
	return failed;
}

void agent_cdi_look(struct agent *a)
{
	struct agent_cdi *c = &a->cdi;
	struct error err = ERROR_INIT;

	if (!wanted(a) || !a->node.inv) {
		memset(c->written, 0, sizeof(c->written));
		error_clear(&c->error);
		c->looked_ns = 0;
		return;
	}
	if (!is_due(a))
		return;
	if (write_all(a, &err) < 0) {
		if (err.code != ERR_NONE && strcmp(c->error.msg, err.msg) != 0)
			log_error("CDI specification not written, trying again",
				LOG_STR("reason", err.msg));
	} else if (c->error.code != ERR_NONE) {
		log_info("CDI specifications are in place again");
	}
	c->error = err;
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
	return random_uuid(ret->response_id, err);
}
