/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `sharing.timeSlicing`, `sharing.mps` and `resources` (read.h). `sharing.slices` is in slices.c. */
#include "io/config/read.h"

#include "model/offer/offer.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- names before renaming --- */

/* Resource names of devices before renaming: `nvidia.com/gpu`, the names of MIG devices, and the operator's
 * names in `resources`. `resources` is read before the entries that refer to it. */

#define SHARED_SUFFIX ".shared" /* suffix of renameByDefault */
#define NEAR_NAME_MAX 3         /* a name with so many edits is a different one */

/* Whether a device can have this resource name before renaming. */
static bool is_source(const struct config *c, const char *name)
{
	size_t len = strlen(name), suffix = strlen(SHARED_SUFFIX);

	if (!strcmp(name, OFFER_GPU))
		return true;
	for (size_t i = 0; i < c->n_gpu_patterns; i++)
		if (!strcmp(name, c->gpu_patterns[i].name))
			return true;
	for (size_t i = 0; i < c->n_mig_patterns; i++)
		if (!strcmp(name, c->mig_patterns[i].name))
			return true;
	return !strncmp(name, OFFER_MIG, strlen(OFFER_MIG)) &&
	       (len <= suffix || strcmp(name + len - suffix, SHARED_SUFFIX) != 0);
}

/* The most similar resource name of a device to @name; "": none. */
static void nearest_source(const struct config *c, const char *name,
	char ret[RESOURCE_NAME_MAX])
{
	size_t len = strlen(name), suffix = strlen(SHARED_SUFFIX);
	size_t best = NEAR_NAME_MAX;

	ret[0] = '\0';
	if (len > suffix && !strcmp(name + len - suffix, SHARED_SUFFIX)) {
		(void)snprintf(ret, RESOURCE_NAME_MAX, "%.*s", (int)(len - suffix), name);
		if (is_source(c, ret))
			return;
		ret[0] = '\0';
	}
	for (size_t i = 0; i <= c->n_gpu_patterns + c->n_mig_patterns; i++) {
		const char *known = i == 0 ? OFFER_GPU
				    : i <= c->n_gpu_patterns
					    ? c->gpu_patterns[i - 1].name
					    : c->mig_patterns[i - 1 - c->n_gpu_patterns].name;
		size_t d = read_distance(name, known, best);

		if (d < best) {
			best = d;
			(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", known);
		}
	}
}

int warn_of_source(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *name)
{
	char near[RESOURCE_NAME_MAX];

	if (is_source(r->c, name))
		return 0;
	nearest_source(r->c, name, near);
	if (!*near) /* another node may have it */
		return 0;
	return read_warn(r, n, path,
		"has no effect: no device has the name '%s' before it is renamed; did you mean "
		"'%s'?",
		name, near);
}

/* --- sharing --- */

/* `sharing.timeSlicing`, `sharing.mps` and `resources`. */

#define PREFIX        "nvidia.com/"
#define NAME_MAX_FULL 63

static bool is_subdomain(const char *text)
{
	bool edge = true; /* the next character starts a label */
	char last = '.';

	for (; *text; text++) {
		if (*text == '.') {
			if (edge || last == '-')
				return false;
			edge = true;
		} else if (islower((unsigned char)*text) || isdigit((unsigned char)*text)) {
			edge = false;
		} else if (*text != '-' || edge) {
			return false;
		}
		last = *text;
	}
	return !edge && last != '-';
}

int read_resource_name(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, char *ret)
{
	const char *text = "";
	char full[160];
	int len;

	if (read_text_value(r, n, path, /* strict= */ true, &text) < 0)
		return -1;
	len = snprintf(full, sizeof(full), "%s%s",
		strncmp(text, PREFIX, strlen(PREFIX)) ? PREFIX : "", text);
	if (len > NAME_MAX_FULL)
		return read_fail(r, n, path, ERR_INVALID,
			"fully-qualified resource name must be 63 characters or less: %s",
			full);
	if (!is_subdomain(full + strlen(PREFIX)))
		return read_fail(r, n, path, ERR_INVALID,
			"incorrect format for resource name '%s': [expected lower-case letters, "
			"digits, '-' and '.' behind " PREFIX
			", with a letter or digit at each end]",
			full);
	memcpy(ret, full, (size_t)len + 1);
	return 0;
}

static bool is_digits(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
	}
	return len > 0 && len <= 9;
}

/* RFC 4122 text form: 8-4-4-4-12 hexadecimal digits. Returns its length or 0. */
static size_t uuid_len(const char *text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		if (form[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return 0;
	}
	return sizeof(form) - 1;
}

static bool is_device_ref(const char *text)
{
	size_t digits = strspn(text, "0123456789"), uuid;

	if (digits && !text[digits])
		return is_digits(text, digits);
	if (digits && text[digits] == ':')
		return is_digits(text, digits) &&
		       is_digits(text + digits + 1, strlen(text + digits + 1));
	if (!strncmp(text, "MIG-GPU-", 8)) { /* MIG-GPU-<uuid>/<gi>/<ci> */
		const char *gi, *ci;

		uuid = uuid_len(text + 8);
		if (!uuid || text[8 + uuid] != '/')
			return false;
		gi = text + 8 + uuid + 1;
		ci = strchr(gi, '/');
		return ci && is_digits(gi, (size_t)(ci - gi)) &&
		       is_digits(ci + 1, strlen(ci + 1));
	}
	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return false;
	uuid = uuid_len(text + 4);
	return uuid && !text[4 + uuid];
}

int read_device_ref(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct strv *list)
{
	char text[128], shown[YAML_SHOW_MAX];
	int64_t index;
	bool good = false;

	if (n->type == YAML_STR && n->len < sizeof(text)) {
		memcpy(text, n->text, n->len + 1);
		good = is_device_ref(text);
	} else if (yaml_integer(n, &index)) {
		(void)snprintf(text, sizeof(text), "%" PRId64, index);
		good = is_device_ref(text);
	}
	if (good && strv_has(list, text))
		return read_warn(r, n, path, "%s is in the list already", text);
	if (good)
		return strv_add(list, text, r->err);
	if (n->type == YAML_STR)
		(void)snprintf(shown, sizeof(shown), "%.*s", YAML_SHOW_MAX - 1, n->text);
	else
		(void)yaml_show(n, shown, sizeof(shown));
	return read_fail(r, n, path, ERR_INVALID,
		"unsupported type for device in devices list: %s, %s; expected a GPU index (0), a MIG "
		"index (0:0), GPU-<uuid>, MIG-<uuid> or MIG-GPU-<uuid>/<gi>/<ci>",
		shown, n->type == YAML_BOOL ? "bool" : "string");
}

static int read_replicated_devices(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct replicated *e)
{
	char shown[YAML_SHOW_MAX];
	int64_t count;

	if (!n)
		return 0;
	if (n->type == YAML_STR || n->type == YAML_NULL) {
		if (n->type == YAML_STR && !strcmp(n->text, "all"))
			return 0;
		return read_fail(r, n, path, ERR_INVALID,
			"devices set as '%.80s' but the only valid string input is 'all'",
			n->type == YAML_STR ? n->text : "");
	}
	if (yaml_integer(n, &count)) {
		if (count <= 0)
			return read_fail(r, n, path, ERR_INVALID,
				"devices set as '%" PRId64
				"' but a count of devices must be > 0",
				count);
		if (count > GPU_NODE_MAX * 8)
			return read_fail(r, n, path, ERR_LIMIT,
				"expected a count of at most %d devices, found %" PRId64,
				GPU_NODE_MAX * 8, count);
		e->devices = DEVICES_COUNT;
		e->count = (uint32_t)count;
		return 0;
	}
	if (n->type != YAML_LIST)
		return read_fail(r, n, path, ERR_INVALID,
			"unrecognized type for devices spec: %s; expected all, a count or a list",
			yaml_show(n, shown, sizeof(shown)));
	if (n->n > CONFIG_ENTRIES_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected at most %d devices, found %zu", CONFIG_ENTRIES_MAX, n->n);
	e->devices = DEVICES_LIST;
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };

		if (read_device_ref(r, n->items[i], &item, &e->list) < 0)
			return -1;
	}
	if (!n->n)
		return read_warn(r, n, path,
			"an empty list selects no device, so nothing is shared");
	return 0;
}

static int read_sharing_replicas(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const struct field_range *range,
	struct replicated *e)
{
	int64_t replicas = 0; /* the value of null in NVIDIA's decoder */

	if (read_int(r, n, path, &replicas) < 0)
		return -1;
	if (replicas < range->min)
		return read_fail(r, n, path, ERR_INVALID,
			"number of replicas must be >= %" PRId64 "; found %" PRId64, range->min,
			replicas);
	if (replicas > range->max)
		return read_fail(r, n, path, ERR_LIMIT,
			"number of replicas must be <= %" PRId64
			", since the kubelet takes no more devices "
			"from one node; found %" PRId64,
			range->max, replicas);
	e->replicas = (uint32_t)replicas;
	return 0;
}

/* In the order of NVIDIA's decoder, so that it reports the same one of several errors. */
static int read_replicated_entry(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern, struct replicated *e)
{
	const struct config_value_path name = { path, "name", 0 },
				       devices = { path, "devices", 0 };
	const struct config_value_path replicas = { path, "replicas", 0 },
				       rename = { path, "rename", 0 };
	const struct config_value_path isolation = { path, "isolation", 0 };
	const struct yaml_node *v;
	char row[80];
	int set = read_object(r, n, path, pattern);

	if (set < 0)
		return -1;
	e->pos = (struct config_pos){ n->line, n->column };
	v = set ? read_find_key(n, pattern, "name") : NULL;
	if (!v)
		return read_fail(r, n, path, ERR_INVALID, "no resource name specified");
	if (read_on(r, read_resource_name(r, v, &name, e->name)) < 0 ||
		(*e->name && warn_of_source(r, v, &name, e->name) < 0) ||
		read_on(r, read_replicated_devices(r, read_find_key(n, pattern, "devices"),
				   &devices, e)) < 0)
		return -1;
	v = read_find_key(n, pattern, "replicas");
	if (!v)
		return read_fail(r, n, path, ERR_INVALID, "no replicas specified");
	(void)snprintf(row, sizeof(row), "%s.replicas", pattern);
	if (read_sharing_replicas(r, v, &replicas, field_range(row), e) < 0)
		return -1;
	v = read_find_key(n, pattern, "rename");
	if (v && read_on(r, read_resource_name(r, v, &rename, e->rename)) < 0)
		return -1;
	return read_isolation(r, read_find_key(n, pattern, "isolation"), &isolation, pattern,
		e->replicas, &e->isolation);
}

/* Makes room for @n entries before the existing ones. */
static int prepend_sharing_entries(struct config_reader *r, size_t n,
	enum sharing_strategy strategy)
{
	struct sharing *s = &r->c->sharing;
	struct replicated *entries = calloc(s->n_entries + n, sizeof(*entries));

	if (!entries)
		return error_nomem(r->err);
	if (s->n_entries)
		memcpy(entries + n, s->entries, s->n_entries * sizeof(*entries));
	free(s->entries);
	s->entries = entries;
	s->n_entries += n;
	for (size_t i = 0; i < n; i++)
		entries[i].strategy = strategy;
	return 0;
}

/* NULL: no entry; a mistake is reported. */
static const struct yaml_node *find_resource_list(struct config_reader *r,
	const struct yaml_node *n, const struct config_value_path *path, const char *pattern)
{
	const struct config_value_path list = { path, "resources", 0 };
	const struct yaml_node *entries = read_find_key(n, pattern, "resources");

	if (entries && entries->type != YAML_LIST && entries->type != YAML_NULL)
		(void)read_type_error(r, entries, &list, "a list", "[]ReplicatedResource");
	else if (!entries || entries->type == YAML_NULL || !entries->n)
		(void)read_fail(r, entries ? entries : n, path, ERR_INVALID,
			"no resources specified; expected a list with at least one entry");
	else if (entries->n > CONFIG_ENTRIES_MAX)
		(void)read_fail(r, entries, &list, ERR_LIMIT,
			"expected at most %d entries, found %zu", CONFIG_ENTRIES_MAX,
			entries->n);
	else
		return entries;
	return NULL;
}

static int read_mode(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path)
{
	const struct config_value_path mode = { path, "computeMode", 0 };
	int word = 0, set = read_word_value(r, read_find_key(n, "sharing.mps", mode.key), &mode,
			      &words_compute_mode, &word);

	r->c->sharing.mps_exclusive = word == 1;
	return set < 0 ? -1 : 0;
}

static const char *kind_pattern(enum sharing_strategy strategy)
{
	return strategy == SHARING_MPS ? "sharing.mps" : "sharing.timeSlicing";
}

static int read_replicated(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, enum sharing_strategy strategy)
{
	const char *pattern = kind_pattern(strategy);
	struct sharing_kind *kind = &r->c->sharing.kinds[strategy];
	const struct config_value_path rename = { path, "renameByDefault", 0 };
	const struct config_value_path fail = { path, "failRequestsGreaterThanOne", 0 };
	const struct config_value_path list = { path, "resources", 0 };
	const struct yaml_node *entries;
	char row[48];

	kind->pos = (struct config_pos){ n->line, n->column };
	if (n->type != YAML_NULL && read_object(r, n, path, pattern) < 0)
		return -1;
	entries = find_resource_list(r, n, path, pattern);
	if (!entries)
		return -1;
	if (read_on(r, read_bool(r, read_find_key(n, pattern, rename.key), &rename,
			       &kind->rename_by_default)) < 0 ||
		read_on(r, read_bool(r, read_find_key(n, pattern, fail.key), &fail,
				   &kind->fail_requests_greater_than_one)) < 0 ||
		(strategy == SHARING_MPS && read_on(r, read_mode(r, n, path)) < 0))
		return -1;
	if (prepend_sharing_entries(r, entries->n, strategy) < 0)
		return -1;
	(void)snprintf(row, sizeof(row), "%s.resources[]", pattern);
	for (size_t i = 0; i < entries->n; i++) {
		struct config_value_path item = { &list, NULL, i };

		if (read_on(r, read_replicated_entry(r, entries->items[i], &item, row,
				       &r->c->sharing.entries[i])) < 0)
			return -1;
	}
	return r->n_mistakes || strategy == SHARING_MPS
		       ? 0
		       : read_warn_mixed_compute(r, entries, &list, row);
}

/* Warns of time-slicing entries whose devices are all shared by MPS: all entries, or each one. */
static int warn_of_nothing(struct config_reader *r, const struct config_value_path *path)
{
	static const char text[] =
		"has no effect: sharing.mps is there too, and takes precedence";
	const struct config_value_path list = { path, "resources", 0 };
	const struct yaml_node *entries =
		read_find_key(r->time_slicing, "sharing.timeSlicing", list.key);
	const struct sharing *s = &r->c->sharing;
	size_t first = s->n_entries - entries->n, n = 0; /* after the MPS entries */

	for (size_t i = 0; i < entries->n; i++)
		n += sharing_leaves_nothing(s, &s->entries[first + i]);
	if (n == entries->n)
		return read_warn(r, r->time_slicing, path, "%s", text);
	for (size_t i = 0; i < entries->n && n; i++) {
		const struct config_value_path item = { &list, NULL, i };

		if (sharing_leaves_nothing(s, &s->entries[first + i]) &&
			read_warn(r, entries->items[i], &item, "%s", text) < 0)
			return -1;
	}
	return 0;
}

int read_sharing(struct config_reader *r, const struct yaml_node *top)
{
	const struct config_value_path path = { NULL, "sharing", 0 };
	const struct config_value_path ts = { &path, "timeSlicing", 0 },
				       mps = { &path, "mps", 0 };
	const struct yaml_node *n = read_find_key(top, "", "sharing");
	int set = read_object(r, n, &path, "sharing");

	if (set <= 0)
		return set;
	r->time_slicing = read_find_key(n, "sharing", "timeSlicing");
	r->mps = read_find_key(n, "sharing", "mps");
	if (r->mps && r->mps->type == YAML_NULL) /* for timeSlicing null is an error */
		r->mps = NULL;
	if (r->time_slicing &&
		read_on(r, read_replicated(r, r->time_slicing, &ts, SHARING_TIME_SLICING)) < 0)
		return -1;
	if (r->mps && read_on(r, read_replicated(r, r->mps, &mps, SHARING_MPS)) < 0)
		return -1;
	if (r->mps && r->time_slicing && !r->n_mistakes && warn_of_nothing(r, &ts) < 0)
		return -1;
	return read_slices(r, n, &path);
}

static int read_pattern(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *row, struct resource_pattern *p)
{
	const struct config_value_path name = { path, "name", 0 },
				       pattern = { path, "pattern", 0 };
	const struct yaml_node *v;
	const char *text = "";
	int set = read_object(r, n, path, row);

	if (set < 0)
		return -1;
	p->pos = (struct config_pos){ n->line, n->column };
	v = set ? read_find_key(n, row, "pattern") : NULL;
	if (read_text_value(r, v, &pattern, /* strict= */ true, &text) < 0)
		return -1;
	if (!*text)
		return read_fail(r, v ? v : n, path, ERR_INVALID,
			"resources must have a 'pattern' field set");
	v = read_find_key(n, row, "name");
	if (!v)
		return read_fail(r, n, path, ERR_INVALID,
			"resources must have a 'name' field set");
	if (read_resource_name(r, v, &name, p->name) < 0)
		return -1;
	p->pattern = strdup(text);
	return p->pattern ? 0 : error_nomem(r->err);
}

static int read_patterns(struct config_reader *r, const struct yaml_node *resources,
	const struct config_value_path *up, const char *key, struct resource_pattern **ret,
	size_t *ret_n)
{
	const struct config_value_path path = { up, key, 0 };
	const struct yaml_node *n = read_find_key(resources, "resources", key);
	char row[32];

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_LIST)
		return read_type_error(r, n, &path, "a list", "[]Resource");
	if (n->n > CONFIG_ENTRIES_MAX)
		return read_fail(r, n, &path, ERR_LIMIT,
			"expected at most %d entries, found %zu", CONFIG_ENTRIES_MAX, n->n);
	if (!n->n)
		return 0;
	*ret = calloc(n->n, sizeof(**ret));
	if (!*ret)
		return error_nomem(r->err);
	*ret_n = n->n;
	(void)snprintf(row, sizeof(row), "resources.%s[]", key);
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { &path, NULL, i };

		if (read_on(r, read_pattern(r, n->items[i], &item, row, &(*ret)[i])) < 0)
			return -1;
	}
	return 0;
}

int read_resources(struct config_reader *r, const struct yaml_node *top)
{
	const struct config_value_path path = { NULL, "resources", 0 };
	const struct yaml_node *n = read_find_key(top, "", "resources");
	int set = read_object(r, n, &path, "resources");

	if (set <= 0)
		return set;
	if (read_on(r, read_patterns(r, n, &path, "gpus", &r->c->gpu_patterns,
			       &r->c->n_gpu_patterns)) < 0)
		return -1;
	return read_patterns(r, n, &path, "mig", &r->c->mig_patterns, &r->c->n_mig_patterns);
}
