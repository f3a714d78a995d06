/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/node-file/node-file.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "testbed/sim/catalogue/catalogue.h"
#include "testbed/sim/mig.h"

/* One `key: value` of a mapping, and the place for an error about it. */
struct node_file_pair {
	struct fy_node *key_node, *value;
	char key[64];
};

struct parser {
	const char *path;
	struct sim_node *node;
	struct fy_diag *diag;
	struct fy_parser *fyp;
	struct fy_document *doc, *more;
	/* Parts that depend on other keys. */
	const struct sim_node_model *model;
	const struct sim_product *product;
	uint32_t count;
	struct node_file_pair gpu, gpus;
};

/* Handles one key of a mapping. */
typedef int pair_fn(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err);

static void parser_fini(struct parser *p)
{
	if (p->fyp) {
		fy_parse_document_destroy(p->fyp, p->doc);
		fy_parse_document_destroy(p->fyp, p->more);
	}
	fy_parser_destroy(p->fyp);
	fy_diag_destroy(p->diag);
}

/* An empty value. libfyaml 0.8 cannot tell this for an alias. */
static bool is_null(struct fy_node *n)
{
	return !n || (!fy_node_is_alias(n) && fy_node_is_null(n));
}

/*
 * A scalar that is not an empty value. libfyaml 0.8 gives an empty value a token with an empty text, at the end of
 * the token before it; libfyaml 0.7 gives none.
 */
static bool is_nonnull_scalar(struct fy_node *n)
{
	return n && fy_node_is_scalar(n) && !is_null(n);
}

/* Puts "path:line:column: " before the text: the place of @value if that is a scalar, else the place of
 * @key. */
static int prefix_node_place(const struct parser *p, struct fy_node *key, struct fy_node *value,
	struct error *err)
{
	struct fy_node *n = is_nonnull_scalar(value) ? value : key;
	struct fy_token *token = is_nonnull_scalar(n) ? fy_node_get_scalar_token(n) : NULL;
	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

	if (!mark)
		return error_prefix(err, "%s:1:1", p->path);
	return error_prefix(err, "%s:%d:%d", p->path, mark->line + 1, mark->column + 1);
}

static int set_pair_error(const struct parser *p, const struct node_file_pair *pair,
	struct error *err, const char *fmt, ...) PRINTF(4, 5);

static int set_pair_error(const struct parser *p, const struct node_file_pair *pair,
	struct error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)error_vset(err, ERR_INVALID, fmt, ap);
	va_end(ap);
	(void)error_prefix(err, "%s", pair->key);
	return prefix_node_place(p, pair->key_node, pair->value, err);
}

/* As set_pair_error(), for an unexpected key: the place is that of the key. */
static int set_unknown_key_error(const struct parser *p, const struct node_file_pair *pair,
	struct error *err, const char *text)
{
	struct node_file_pair key = *pair;

	key.value = NULL;
	return set_pair_error(p, &key, err, "%s", text);
}

static const char *describe_node_kind(struct fy_node *n)
{
	if (is_null(n))
		return "nothing";
	if (fy_node_is_alias(n))
		return "an alias";
	return fy_node_is_scalar(n)    ? "a scalar"
	       : fy_node_is_mapping(n) ? "a mapping"
				       : "a list";
}

/* The scalar's text in @ret of @cap bytes; refuses a longer text, or one with a NUL. */
static int read_scalar_text(const struct parser *p, const struct node_file_pair *pair,
	char *ret, size_t cap, struct error *err)
{
	size_t len = 0;
	const char *text;

	if (!is_nonnull_scalar(pair->value) || fy_node_is_alias(pair->value))
		return set_pair_error(p, pair, err, "expected a scalar, found %s",
			describe_node_kind(pair->value));
	text = fy_node_get_scalar(pair->value, &len);
	if (!text || len >= cap || memchr(text, 0, len))
		return set_pair_error(p, pair, err, "expected at most %zu bytes of text",
			cap - 1);
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

static int read_scalar_number(const struct parser *p, const struct node_file_pair *pair,
	uint64_t min, uint64_t max, uint64_t *ret, struct error *err)
{
	char text[32];

	if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
		return -1;
	if (!parse_u64(text, ret) || *ret < min || *ret > max)
		return set_pair_error(p, pair, err,
			"expected a number from %llu to %llu, found '%s'",
			(unsigned long long)min, (unsigned long long)max, text);
	return 0;
}

/* Calls @fn for each key of the mapping @of->value. */
static int iterate_mapping(struct parser *p, const struct node_file_pair *of, pair_fn *fn,
	void *arg, struct error *err)
{
	struct fy_node_pair *np;
	void *iter = NULL;

	if (!of->value || !fy_node_is_mapping(of->value))
		return set_pair_error(p, of, err, "expected a mapping, found %s",
			describe_node_kind(of->value));
	while ((np = fy_node_mapping_iterate(of->value, &iter)) != NULL) {
		struct node_file_pair pair = { .key_node = fy_node_pair_key(np),
			.value = fy_node_pair_value(np) };
		size_t len = 0;
		const char *text;

		if (!pair.key_node || !fy_node_is_scalar(pair.key_node) ||
			fy_node_is_alias(pair.key_node))
			return set_pair_error(p, of, err, "expected plain keys");
		text = fy_node_get_scalar(pair.key_node, &len);
		if (!text || !len || len >= sizeof(pair.key) || memchr(text, 0, len))
			return set_pair_error(p, of, err, "expected keys of 1 to %zu bytes",
				sizeof(pair.key) - 1);
		memcpy(pair.key, text, len);
		if (fn(p, &pair, arg, err) < 0)
			return -1;
	}
	return 0;
}

/* --- the parts of a file --- */

static int on_fail(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	struct sim_gpu *g = arg;
	enum sim_group group;
	char text[64];
	uint32_t code;

	if (!sim_group_find(pair->key, &group))
		return set_unknown_key_error(p, pair, err,
			"unknown group of functions (gpuslice sim list groups)");
	if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
		return -1;
	if (!sim_code_parse(text, &code))
		return set_pair_error(p, pair, err,
			"expected an NVML code like 3 or NOT_SUPPORTED, found '%s'", text);
	g->fail[group] = (uint16_t)code;
	return 0;
}

static int find_product(const struct parser *p, const struct node_file_pair *pair,
	const struct sim_product **ret, struct error *err)
{
	char text[64];

	if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
		return -1;
	*ret = sim_product_find(text);
	if (!*ret)
		return set_pair_error(p, pair, err,
			"expected a product (gpuslice sim list models), found '%s'", text);
	return 0;
}

/* Another product at the same address, with the same UUID and serial. */
static void change_product(struct sim_gpu *g, const struct sim_product *product)
{
	struct sim_keys old = g->keys;

	g->keys = product->keys;
	memcpy(g->fail, product->fail, sizeof(g->fail));
	memset(&g->mig, 0, sizeof(g->mig));
	memcpy(g->keys.uuid, old.uuid, sizeof(old.uuid));
	memcpy(g->keys.serial, old.serial, sizeof(old.serial));
	g->keys.minor = old.minor;
	g->keys.module_id = old.module_id;
	g->keys.pci_domain = old.pci_domain;
	g->keys.pci_bus = old.pci_bus;
	g->keys.pci_device = old.pci_device;
	g->keys.pcie_switch = old.pcie_switch;
	g->keys.numa_node = old.numa_node;
}

static int on_product(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	const struct sim_product *product;

	if (strcmp(pair->key, "product") != 0)
		return 0;
	if (find_product(p, pair, &product, err) < 0)
		return -1;
	change_product(arg, product);
	return 0;
}

static int on_gpu_key(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	const struct sim_key *key = sim_key_find(pair->key);
	struct sim_gpu *g = arg;
	char text[128];

	if (!strcmp(pair->key, "index") || !strcmp(pair->key, "product"))
		return 0; /* read earlier */
	if (!strcmp(pair->key, "mig"))
		return 0; /* read later */
	if (!strcmp(pair->key, "fail"))
		return iterate_mapping(p, pair, on_fail, g, err);
	if (!key)
		return set_unknown_key_error(p, pair, err,
			"unknown key (gpuslice sim list keys)");
	if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
		return -1;
	if (sim_key_set(&g->keys, key, text, err) == 0)
		return 0;
	(void)error_prefix(err, "%s", pair->key);
	return prefix_node_place(p, pair->key_node, pair->value, err);
}

/* "3g.20gb" or "3g.20gb@4": a GPU instance with one compute instance, which occupies all of it. */
static int add_file_mig_instance(struct parser *p, const struct node_file_pair *pair,
	struct sim_gpu *g, struct error *err)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	uint32_t start = SIM_MIG_ANY, gi, ci, i = 0;
	const struct sim_mig_profile *profile;
	char text[SIM_NAME_MAX], *at;

	if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
		return -1;
	at = strchr(text, '@');
	if (at)
		*at++ = '\0';
	if (at && (!parse_u32(at, &start) || start >= SIM_MIG_SLOTS_MAX))
		return set_pair_error(p, pair, err,
			"expected a memory slot behind '@', found '%s'", at);
	while (i < t->profile_count && strcmp(t->profiles[i].name, text) != 0)
		i++;
	if (i == t->profile_count)
		return set_pair_error(p, pair, err,
			"expected a MIG profile of %s (gpuslice sim list mig), found '%s'",
			t->product, text);
	profile = &t->profiles[i];
	if (sim_gi_create(g, profile->id, start, profile->size, &gi))
		return set_pair_error(p, pair, err, "no room for '%s'", text);
	if (sim_ci_create(g, gi, sim_ci_default(t, profile), SIM_MIG_ANY, 0, &ci))
		return set_pair_error(p, pair, err, "no room in '%s'", text);
	return 0;
}

/* MIG on, with these instances in this order. */
static int on_mig(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	struct sim_gpu *g = arg;
	struct fy_node *item;
	void *iter = NULL;

	if (strcmp(pair->key, "mig") != 0)
		return 0;
	if (!sim_mig_table(&g->keys))
		return set_pair_error(p, pair, err, "the product has no MIG");
	if (!pair->value || !fy_node_is_sequence(pair->value))
		return set_pair_error(p, pair, err, "expected a list, found %s",
			describe_node_kind(pair->value));
	g->mig.pending = NVML_DEVICE_MIG_ENABLE;
	sim_mig_reset(g);
	while ((item = fy_node_sequence_iterate(pair->value, &iter)) != NULL) {
		struct node_file_pair one = *pair;

		one.value = item;
		if (add_file_mig_instance(p, &one, g, err) < 0)
			return -1;
	}
	sim_gpu_sum_processes(g);
	return 0;
}

/* A mapping of keys for one GPU: the product first, since the product resets the other keys; MIG last. */
static int apply_gpu(struct parser *p, const struct node_file_pair *of, struct sim_gpu *g,
	struct error *err)
{
	if (iterate_mapping(p, of, on_product, g, err) < 0 ||
		iterate_mapping(p, of, on_gpu_key, g, err) < 0)
		return -1;
	return iterate_mapping(p, of, on_mig, g, err);
}

static int on_index(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	uint64_t *index = arg;

	if (strcmp(pair->key, "index") != 0)
		return 0;
	return read_scalar_number(p, pair, 0, p->node->head.info.slot_count - 1, index, err);
}

static int apply_gpus(struct parser *p, struct error *err)
{
	struct fy_node *item;
	void *iter = NULL;

	if (!p->gpus.value)
		return 0;
	if (!fy_node_is_sequence(p->gpus.value))
		return set_pair_error(p, &p->gpus, err, "expected a list, found %s",
			describe_node_kind(p->gpus.value));
	while ((item = fy_node_sequence_iterate(p->gpus.value, &iter)) != NULL) {
		struct node_file_pair pair = { .key_node = p->gpus.key_node,
			.value = item,
			.key = "gpus" };
		uint64_t index = UINT64_MAX;

		if (iterate_mapping(p, &pair, on_index, &index, err) < 0)
			return -1;
		if (index == UINT64_MAX)
			return set_pair_error(p, &pair, err, "expected an index in each entry");
		if (apply_gpu(p, &pair, &p->node->gpus[index], err) < 0)
			return -1;
	}
	return 0;
}

static int on_driver(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	struct sim_node_head *h = arg;
	uint64_t n;

	if (!strcmp(pair->key, "version"))
		return read_scalar_text(p, pair, h->driver_version, sizeof(h->driver_version),
			err);
	if (!strcmp(pair->key, "cuda")) {
		if (read_scalar_number(p, pair, 8000, 99990, &n, err) < 0)
			return -1;
		h->info.cuda_version = (uint32_t)n;
		return 0;
	}
	if (strcmp(pair->key, "nvml") != 0)
		return set_unknown_key_error(p, pair, err,
			"unknown key, expected version, cuda or nvml");
	if (read_scalar_number(p, pair, 11, 99, &n, err) < 0)
		return -1;
	h->info.nvml_major = (uint32_t)n;
	return 0;
}

static int top_name(struct parser *p, const struct node_file_pair *pair, struct error *err)
{
	struct sim_node_head *h = &p->node->head;

	if (read_scalar_text(p, pair, h->name, sizeof(h->name), err) < 0)
		return -1;
	if (!h->name[0] || strchr(h->name, '/') || h->name[0] == '.')
		return set_pair_error(p, pair, err, "expected a name without '/', found '%s'",
			h->name);
	return 0;
}

static int top_model(struct parser *p, const struct node_file_pair *pair, struct error *err)
{
	char text[SIM_NAME_MAX];

	if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
		return -1;
	p->model = sim_node_model_find(text);
	return p->model ? 0
			: set_pair_error(p, pair, err,
				  "expected a model (gpuslice sim list models), found '%s'",
				  text);
}

static int on_top(struct parser *p, const struct node_file_pair *pair, void *arg,
	struct error *err)
{
	struct sim_node_head *h = &p->node->head;
	char text[SIM_NAME_MAX];
	uint64_t n;

	(void)arg;
	if (!strcmp(pair->key, "version")) {
		if (read_scalar_text(p, pair, text, sizeof(text), err) < 0)
			return -1;
		return strcmp(text, "v1")
			       ? set_pair_error(p, pair, err, "expected v1, found '%s'", text)
			       : 0;
	}
	if (!strcmp(pair->key, "name"))
		return top_name(p, pair, err);
	if (!strcmp(pair->key, "seed"))
		return read_scalar_number(p, pair, 0, INT64_MAX, &h->seed, err);
	if (!strcmp(pair->key, "driver"))
		return iterate_mapping(p, pair, on_driver, h, err);
	if (!strcmp(pair->key, "model"))
		return top_model(p, pair, err);
	if (!strcmp(pair->key, "product"))
		return find_product(p, pair, &p->product, err);
	if (!strcmp(pair->key, "count")) {
		if (read_scalar_number(p, pair, 1, SIM_MAX_GPUS, &n, err) < 0)
			return -1;
		p->count = (uint32_t)n;
		return 0;
	}
	if (!strcmp(pair->key, "gpu")) {
		p->gpu = *pair;
		return 0;
	}
	if (strcmp(pair->key, "gpus") != 0)
		return set_unknown_key_error(p, pair, err,
			"unknown key, expected version, name, seed, driver, model, product, count, gpu or gpus");
	p->gpus = *pair;
	return 0;
}

static int fill_file_node(struct parser *p, struct error *err)
{
	uint32_t slot, count = p->count ? p->count : 1;

	if (p->model && p->product)
		return error_set(err, ERR_INVALID,
			"%s:1:1: expected model or product, found both", p->path);
	if (!p->model && !p->product)
		return error_set(err, ERR_INVALID, "%s:1:1: expected a key model or product",
			p->path);
	if (p->model)
		return sim_node_fill(p->node, p->model, p->count, err);
	for (uint32_t i = 0; i < count; i++)
		if (sim_node_add(p->node, p->product, &slot, err) < 0)
			return -1;
	return 0;
}

/* --- reading --- */

/* The first error of libfyaml, as "path:line:column: text". */
static int syntax_error(const struct parser *p, struct error *err)
{
	void *iter = NULL;
	const struct fy_diag_error *e = fy_diag_errors_iterate(p->diag, &iter);

	if (!e)
		return error_set(err, ERR_INVALID, "%s:1:1: expected a YAML mapping", p->path);
	return error_set(err, ERR_INVALID, "%s:%d:%d: %s", p->path, e->line, e->column, e->msg);
}

static int check_node_file_text(const struct parser *p, const char *text, size_t len,
	struct error *err)
{
	char why[YAML_TEXT_WHY_MAX];
	struct utf8_position bad;

	if (yaml_text_is_safe(text, len, &bad, why))
		return 0;
	return error_set(err, ERR_INVALID, "%s:%u:%u: %s", p->path, bad.line, bad.column, why);
}

static int load_node_document(struct parser *p, const char *text, size_t len, struct error *err)
{
	struct fy_diag_cfg diag_cfg;
	struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG };

	if (check_node_file_text(p, text, len, err) < 0)
		return -1;
	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL;
	p->diag = fy_diag_create(&diag_cfg);
	if (!p->diag)
		return error_nomem(err);
	fy_diag_set_collect_errors(p->diag, true);
	cfg.diag = p->diag;
	p->fyp = fy_parser_create(&cfg);
	if (!p->fyp || fy_parser_set_string(p->fyp, text, len) < 0)
		return error_nomem(err);
	p->doc = fy_parse_load_document(p->fyp);
	if (!p->doc || !fy_document_root(p->doc))
		return syntax_error(p, err);
	p->more = fy_parse_load_document(p->fyp);
	if (p->more)
		return error_set(err, ERR_INVALID, "%s:1:1: expected one document, found more",
			p->path);
	return fy_parser_get_stream_error(p->fyp) ? syntax_error(p, err) : 0;
}

static void name_from_path(const char *path, char *ret, size_t cap)
{
	const char *base = strrchr(path, '/'), *dot;

	base = base ? base + 1 : path;
	dot = strrchr(base, '.');
	(void)snprintf(ret, cap, "%.*s",
		dot && dot != base ? (int)(dot - base) : (int)strlen(base), base);
}

int sim_node_parse(const char *text, size_t len, const char *path, struct sim_node *node,
	struct error *err)
{
	CLEANUP(parser_fini) struct parser p = { .path = path, .node = node };
	struct node_file_pair root = { .key = "node file" };
	char name[SIM_NAME_MAX];

	if (len > SIM_NODE_FILE_MAX_BYTES)
		return error_set(err, ERR_LIMIT, "%s: expected at most %d bytes, found %zu",
			path, SIM_NODE_FILE_MAX_BYTES, len);
	name_from_path(path, name, sizeof(name));
	sim_node_init(node, name, path, 0);
	if (load_node_document(&p, text, len, err) < 0)
		return -1;
	root.value = fy_document_root(p.doc);
	if (iterate_mapping(&p, &root, on_top, NULL, err) < 0 || fill_file_node(&p, err) < 0)
		return -1;
	for (uint32_t i = 0; p.gpu.value && i < node->head.info.slot_count; i++)
		if (apply_gpu(&p, &p.gpu, &node->gpus[i], err) < 0)
			return -1;
	return apply_gpus(&p, err);
}

int sim_node_file_load(const char *path, struct sim_node *node, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SIM_NODE_FILE_MAX_BYTES + 1);

	if (file_read(path, &b, err) < 0)
		return -1;
	return sim_node_parse(buf_str(&b), b.len, path, node, err);
}
