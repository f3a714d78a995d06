/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"
#include "model/slice/slice.h"

/* The limits of one replica, or of one slice of a profile. */

#define PERMILLE_ALL 1000

/* A percentage of the device. @replicas times this value must not exceed 100 %. */
static int read_percent(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *text, uint32_t replicas,
	struct isolation *iso)
{
	size_t len = strlen(text);
	uint32_t max = replicas ? PERMILLE_ALL / replicas : PERMILLE_ALL;
	double percent;
	char number[16];

	memcpy(number, text, len - 1);
	number[len - 1] = '\0';
	if (!parse_double(number, &percent) || percent < 0.1 || percent > 100)
		return read_fail(r, n, path, ERR_INVALID,
			"expected from 0.1%% to 100%%, found '%s'", text);
	iso->memory = ISOLATION_MEMORY_PERMILLE;
	iso->memory_value = (uint64_t)(percent * 10 + 0.5);
	if (replicas > PERMILLE_ALL)
		return read_fail(r, n, path, ERR_INVALID,
			"%u replicas of %s are more than the GPU has; expected at most %d "
			"replicas, or an amount such as 8Gi",
			replicas, text, PERMILLE_ALL);
	if (replicas && iso->memory_value * replicas > PERMILLE_ALL)
		return read_fail(r, n, path, ERR_INVALID,
			"%u replicas of %s are more than the GPU has; expected at most %.1f%%",
			replicas, text, (double)max / 10);
	return 1;
}

int read_isolation_memory(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, uint32_t replicas, struct isolation *iso)
{
	const char *expected =
		replicas ? "none, equal, an amount such as 8Gi, or a part such as 25%"
			 : "none, an amount such as 4Gi, or a part such as 25%";
	const char *text = NULL;
	size_t len;
	int set = read_text_value(r, n, path, /* strict= */ false, &text);

	if (set <= 0)
		return set;
	len = strlen(text);
	if (!strcmp(text, "none")) {
		iso->memory = ISOLATION_MEMORY_NONE;
		return 1;
	}
	if (replicas && !strcmp(text, "equal")) {
		iso->memory = ISOLATION_MEMORY_EQUAL;
		return 1;
	}
	if (len > 1 && len < 16 && text[len - 1] == '%')
		return read_percent(r, n, path, text, replicas, iso);
	if (!parse_bytes(text, &iso->memory_value) || !iso->memory_value)
		return read_fail(r, n, path, ERR_INVALID, "expected %s, found '%.60s'",
			expected, text);
	if (iso->memory_value < SLICE_GRANULE)
		return read_fail(r, n, path, ERR_INVALID,
			"expected at least 2Mi, in which a GPU gives out its memory, found "
			"'%.60s'",
			text);
	iso->memory = ISOLATION_MEMORY_BYTES;
	return 1;
}

/* A 1000th of the time is the smallest useful cap: its quanta are 15 s apart. */
static int check_cap(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, uint32_t replicas, const struct isolation *iso)
{
	if (iso->compute != ISOLATION_COMPUTE_CAPPED ||
		replicas <= SLICE_CAP_ALL / SLICE_CAP_MIN)
		return 0;
	return read_fail(r, n, path, ERR_INVALID,
		"expected fair, or at most %d replicas, so that each may have %.1f%% of the time; "
		"found capped with %u replicas, which may have %.4f%% each",
		SLICE_CAP_ALL / SLICE_CAP_MIN, SLICE_CAP_MIN / 1e4, replicas, 100.0 / replicas);
}

int read_isolation_words(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern, uint32_t replicas,
	struct isolation *iso)
{
	const struct config_value_path compute = { path, "compute", 0 },
				       class = { path, "class", 0 };
	const struct config_value_path unhooked = { path, "unhooked", 0 };
	bool replica = iso->compute == ISOLATION_COMPUTE_NONE;
	int word, set;

	set = read_word_value(r, read_find_key(n, pattern, "compute"), &compute,
		replica ? &words_compute : &words_profile_compute, &word);
	if (set > 0) /* the words of a profile lack the first value */
		iso->compute = (enum isolation_compute)(replica ? word : word + 1);
	if (set > 0 &&
		check_cap(r, read_find_key(n, pattern, "compute"), &compute, replicas, iso) < 0)
		return -1;
	if (set >= 0)
		set = read_word_value(r, read_find_key(n, pattern, "class"), &class,
			&words_class, &word);
	if (set > 0) {
		iso->class_ = (enum slice_class)word;
		if (iso->compute == ISOLATION_COMPUTE_NONE && word != SLICE_CLASS_BATCH &&
			read_warn(r, read_find_key(n, pattern, "class"), &class,
				"has no effect without isolation.compute") < 0)
			return -1;
	}
	if (set >= 0)
		set = read_word_value(r, read_find_key(n, pattern, "unhooked"), &unhooked,
			&words_unhooked, &word);
	if (set > 0) {
		iso->unhooked = (enum isolation_unhooked)word;
		if (!isolation_enforces(iso))
			return read_warn(r, read_find_key(n, pattern, "unhooked"), &unhooked,
				"has no effect without isolation.memory or isolation.compute");
	}
	return set < 0 ? -1 : 0;
}

int read_isolation(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern, uint32_t replicas,
	struct isolation *iso)
{
	const struct config_value_path memory = { path, "memory", 0 };
	char key[80];
	int set;

	(void)snprintf(key, sizeof(key), "%s.isolation", pattern);
	set = read_object(r, n, path, key);
	if (set <= 0)
		return set;
	iso->present = true;
	iso->pos = (struct config_pos){ n->line, n->column };
	if (read_on(r, read_isolation_memory(r, read_find_key(n, key, "memory"), &memory,
			       replicas, iso)) < 0)
		return -1;
	return read_isolation_words(r, n, path, key, replicas, iso);
}

/* The node of the `compute` of an entry, or where it belongs. */
static const struct yaml_node *find_compute_node(const struct yaml_node *entry,
	const char *pattern, const char *path)
{
	const struct yaml_node *isolation = read_find_key(entry, pattern, "isolation");
	const struct yaml_node *compute = NULL;

	if (!isolation)
		return entry;
	if (isolation->type == YAML_OBJECT)
		compute = read_find_key(isolation, path, "compute");
	return compute ? compute : isolation;
}

/* One warning for each entry without compute, with the first entry that shares its GPUs. MPS entries do not
 * use the fair-share scheduler. */
int read_warn_mixed_compute(struct config_reader *r, const struct yaml_node *entries,
	const struct config_value_path *path, const char *pattern)
{
	const struct replicated *v = r->c->sharing.entries;
	char key[80];

	(void)snprintf(key, sizeof(key), "%s.isolation", pattern);
	for (size_t i = 0; i < entries->n; i++) {
		const struct config_value_path item = { path, NULL, i },
					       isolation = { &item, "isolation", 0 };
		const struct config_value_path compute = { &isolation, "compute", 0 };
		size_t k = 0;

		if (v[i].isolation.compute != ISOLATION_COMPUTE_NONE)
			continue;
		while (k < entries->n && !(replicated_mix_fair_share(&v[i], &v[k]) &&
						 replicated_always_overlap(&v[i], &v[k])))
			k++;
		if (k == entries->n)
			continue;
		if (read_warn(r, find_compute_node(entries->items[i], pattern, key), &compute,
			    "expected fair or capped, as in line %u for the same GPUs, found none: "
			    "who has these replicas takes no turns, and takes the GPU from those "
			    "that do",
			    v[k].pos.line) < 0)
			return -1;
	}
	return 0;
}
