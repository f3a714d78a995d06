/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/location.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "testbed/sim/catalogue/catalogue.h"
#include "testbed/sim/node-file/node-file.h"

static uint64_t hash_bytes(const char *data, size_t len)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)data[i]) * UINT64_C(0x100000001B3);
	return h | 1; /* 0 means "no file" */
}

/* The name of the default directory. Of a node file: the name of the file with a hash of its path. */
static void node_dir_name(const struct sim_location *location, char *ret, size_t cap)
{
	const char *base = strrchr(location->node, '/');

	if (!location->is_file)
		(void)snprintf(ret, cap, "%s", location->node);
	else
		(void)snprintf(ret, cap, "%.40s-%08x", base ? base + 1 : location->node,
			(unsigned)hash_bytes(location->node, strlen(location->node)));
}

static int default_dir(struct sim_location *location, const char *runtime_dir,
	struct error *err)
{
	char name[128];
	int n;

	node_dir_name(location, name, sizeof(name));
	if (runtime_dir && runtime_dir[0] == '/')
		n = snprintf(location->dir, sizeof(location->dir), "%s/gpuslice-sim/%s",
			runtime_dir, name);
	else
		n = snprintf(location->dir, sizeof(location->dir), "/tmp/gpuslice-sim-%u/%s",
			(unsigned)geteuid(), name);
	return n < (int)sizeof(location->dir) ? 0 : error_set(err, ERR_LIMIT, "path too long");
}

/* A word with a slash or a YAML ending is a file. Any other word must be a model. */
static int resolve_node(struct sim_location *location, const char *node, struct error *err)
{
	const char *dot = strrchr(node, '.');
	CLEANUP(freep) char *real = NULL;

	location->is_file =
		strchr(node, '/') || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
	if (!location->is_file) {
		if (!sim_node_model_find(node))
			return error_set(err, ERR_NOT_FOUND,
				"unknown node model '%.60s' (gpuslice sim list models; a path needs a '/')",
				node);
		(void)snprintf(location->node, sizeof(location->node), "%s", node);
		return 0;
	}
	real = realpath(node, NULL);
	if (!real)
		return error_sys(err, errno, "node file '%s'", node);
	if (strlen(real) >= sizeof(location->node))
		return error_set(err, ERR_LIMIT, "node file '%.60s…': path too long", real);
	(void)snprintf(location->node, sizeof(location->node), "%s", real);
	return 0;
}

static int resolve_sim_location(struct sim_location *location, const char *node,
	const char *dir, const char *runtime_dir, struct error *err)
{
	*location = (struct sim_location){ .is_file = false };
	if (node && node[0] && resolve_node(location, node, err) < 0)
		return -1;
	if (dir && dir[0]) {
		if (strlen(dir) >= sizeof(location->dir) - 64)
			return error_set(err, ERR_LIMIT, SIM_ENV_DIR ": path too long");
		(void)snprintf(location->dir, sizeof(location->dir), "%s", dir);
		return 0;
	}
	return location->node[0] ? default_dir(location, runtime_dir, err) : 0;
}

int sim_location_resolve(struct sim_location *location, const char *node, const char *dir,
	struct error *err)
{
	return resolve_sim_location(location, node, dir, getenv("XDG_RUNTIME_DIR"), err);
}

int sim_location_from_env(struct sim_location *location, const char *(*env)(const char *name),
	struct error *err)
{
	const char *node = env ? env(SIM_ENV_NODE) : getenv(SIM_ENV_NODE);
	const char *dir = env ? env(SIM_ENV_DIR) : getenv(SIM_ENV_DIR);

	const char *seed = env ? env(SIM_ENV_SEED) : getenv(SIM_ENV_SEED);
	const char *runtime = env ? env("XDG_RUNTIME_DIR") : getenv("XDG_RUNTIME_DIR");
	const char *dev = env ? env(SIM_ENV_DEV) : getenv(SIM_ENV_DEV);

	if (resolve_sim_location(location, node, dir, runtime, err) < 0)
		return -1;
	if (dev && strlen(dev) >= sizeof(location->dev))
		return error_set(err, ERR_LIMIT, SIM_ENV_DEV ": path too long");
	(void)snprintf(location->dev, sizeof(location->dev), "%s", dev ? dev : "");
	if (seed && seed[0] && !parse_u64(seed, &location->seed))
		return error_set(err, ERR_INVALID,
			SIM_ENV_SEED ": expected a number, found '%.40s'", seed);
	return 0;
}

static int file_hash(const char *path, uint64_t *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SIM_NODE_FILE_MAX_BYTES + 1);

	if (file_read(path, &b, err) < 0)
		return -1;
	*ret = hash_bytes(buf_str(&b), b.len);
	return 0;
}

int sim_location_build(const struct sim_location *location, sim_node_file_fn *load,
	struct sim_node *node, struct error *err)
{
	if (!location->is_file) {
		sim_node_init(node, location->node, location->node, location->seed);
		if (sim_node_fill(node, sim_node_model_find(location->node), 0, err) < 0)
			return -1;
	} else if (load(location->node, node, err) < 0 ||
		   file_hash(location->node, &node->head.spec_hash, err) < 0) {
		return -1;
	}
	sim_node_seal(node);
	return 0;
}

/* Checks that the state was made from the node that is requested now. */
static int check_location_node(const struct sim_location *location, const struct sim_state *s,
	struct error *err)
{
	CLEANUP(freep) struct sim_node_head *head = malloc(sizeof(*head));
	uint64_t hash = 0;

	if (!head)
		return error_nomem(err);
	sim_state_read(s, &SIM_PART_HEAD(head), 1);
	if (strncmp(head->spec, location->node, sizeof(head->spec)) != 0)
		return error_set(err, ERR_INVALID,
			SIM_ENV_NODE
			" is '%s', but '%s' holds the node '%.*s'; use another directory or remove it",
			location->node, location->dir, (int)sizeof(head->spec), head->spec);
	if (location->is_file && file_hash(location->node, &hash, err) < 0)
		return -1;
	if (hash != head->spec_hash)
		return error_set(err, ERR_INVALID,
			"'%s' has changed since '%s' was made from it; gpuslice sim create --force makes it anew",
			location->node, location->dir);
	return 0;
}

#define SHARED_TMP "/tmp/gpuslice-sim-"

/* In /tmp another user may have created the directory. The directory must belong to the caller and be writable
 * for no other user. */
static int check_tmp_owner(const char *dir, struct error *err)
{
	char parent[SIM_PATH_MAX];
	struct stat st;

	if (strncmp(dir, SHARED_TMP, sizeof(SHARED_TMP) - 1) != 0)
		return 0;
	(void)snprintf(parent, sizeof(parent), "%.*s",
		(int)(sizeof(SHARED_TMP) - 1 + strcspn(dir + sizeof(SHARED_TMP) - 1, "/")),
		dir);
	if (lstat(parent, &st) < 0)
		return error_sys(err, errno, "'%s'", parent);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, ERR_PERMISSION, "'%s' belongs to somebody else", parent);
	return 0;
}

static int create_state_dir(const char *dir, struct error *err)
{
	return dir_make(dir, 0700, err) < 0 ? -1 : check_tmp_owner(dir, err);
}

static int create_location_state(const struct sim_location *location, sim_node_file_fn *load,
	struct error *err)
{
	CLEANUP(freep) struct sim_node *node = malloc(sizeof(*node));

	if (!node)
		return error_nomem(err);
	if (create_state_dir(location->dir, err) < 0 ||
		sim_location_build(location, load, node, err) < 0 ||
		sim_fake_root_write(location->dir, node, err) < 0)
		return -1;
	return sim_state_create(location->dir, node, err) < 0 ? -1 : 0;
}

int sim_location_open(const struct sim_location *location, sim_node_file_fn *load,
	struct sim_state **ret, struct error *err)
{
	struct sim_state *s = NULL;
	int r;

	if (!location->dir[0])
		return SIM_LOCATION_E_NONE;
	if (access(location->dir, F_OK) == 0 && check_tmp_owner(location->dir, err) < 0)
		return -1;
	r = sim_state_open(location->dir, &s, err);
	if (r == SIM_STATE_E_NONE) {
		if (!location->node[0])
			return SIM_LOCATION_E_NONE;
		if (create_location_state(location, load, err) < 0)
			return -1;
		r = sim_state_open(location->dir, &s, err);
	}
	if (r == SIM_STATE_E_NONE)
		return error_set(err, ERR_UNAVAILABLE, "'%s' went away", location->dir);
	if (r < 0)
		return -1;
	if (location->node[0] && check_location_node(location, s, err) < 0) {
		(void)sim_state_close(s);
		return -1;
	}
	*ret = s;
	return 0;
}
