/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of a GPU that MIG profiles use up (compute slices, engines, instances of a profile), and the
 * errors if they do not suffice (internal.h).
 */
#include "model/mig/geometry/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* --- lists in error texts --- */

static const char more[] = ", ...";

void mig_list_add(struct mig_list *l, const char *fmt, ...)
{
	char item[MIG_LIST_MAX / 2] = ", ";
	const char *text = l->len ? item : item + 2;
	size_t len;
	va_list ap;

	if (l->full)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(item + 2, sizeof(item) - 2, fmt, ap);
	va_end(ap);
	len = strlen(text);
	if (l->len + len + sizeof(more) > sizeof(l->text)) {
		l->full = true;
		text = more;
		len = strlen(more);
	}
	memcpy(l->text + l->len, text, len + 1);
	l->len += len;
}

/* --- the budget --- */

static const char *const resource_names[MIG_RESOURCES] = {
	[MIG_SLICES] = "compute slices",
	[MIG_SLOTS] = "memory slots",
	[MIG_COPY] = "copy engines",
	[MIG_DECODER] = "video decoders",
	[MIG_ENCODER] = "video encoders",
	[MIG_JPEG] = "JPEG engines",
	[MIG_OFA] = "optical flow engines",
};

struct mig_resource_amounts {
	uint32_t v[MIG_RESOURCES];
};

/* The resources of one instance. */
static struct mig_resource_amounts get_profile_resources(const struct mig_gi_profile *p)
{
	return (struct mig_resource_amounts){ {
		[MIG_SLICES] = p->slices,
		[MIG_SLOTS] = p->size,
		[MIG_COPY] = p->copy,
		[MIG_DECODER] = p->decoder,
		[MIG_ENCODER] = p->encoder,
		[MIG_JPEG] = p->jpeg,
		[MIG_OFA] = p->ofa,
	} };
}

static uint32_t get_profile_max(const struct mig_gi_profile *p)
{
	return p->max < MIG_GIS_MAX ? p->max : MIG_GIS_MAX;
}

void mig_budget_init(struct mig_budget *b, const struct mig_layout *l)
{
	*b = (struct mig_budget){
		.left = { [MIG_SLICES] = l->slices, [MIG_SLOTS] = l->slots }
	};
	for (uint32_t i = 0; i < l->n; i++) {
		struct mig_resource_amounts need = get_profile_resources(&l->profiles[i]);

		b->more[i] = get_profile_max(&l->profiles[i]);
		for (int r = MIG_COPY; r < MIG_RESOURCES; r++) {
			uint64_t together = (uint64_t)need.v[r] * b->more[i];

			if (together > b->left[r])
				b->left[r] = together;
		}
	}
}

uint32_t mig_budget_count_free(const struct mig_budget *b, const struct mig_layout *l,
	uint32_t i)
{
	struct mig_resource_amounts need = get_profile_resources(&l->profiles[i]);
	uint64_t room = b->more[i];

	for (int r = 0; r < MIG_RESOURCES; r++)
		if (need.v[r] && b->left[r] / need.v[r] < room)
			room = b->left[r] / need.v[r];
	return (uint32_t)room;
}

void mig_budget_subtract(struct mig_budget *b, const struct mig_layout *l, uint32_t i)
{
	struct mig_resource_amounts need = get_profile_resources(&l->profiles[i]);

	for (int r = 0; r < MIG_RESOURCES; r++)
		b->left[r] -= need.v[r] < b->left[r] ? need.v[r] : b->left[r];
	b->more[i] -= b->more[i] > 0;
}

/* Lists the requested profiles that use resource @r. */
static void list_wanting(struct mig_list *list, const struct mig_layout *l,
	const uint32_t counts[], int r)
{
	char name[MIG_PROFILE_NAME_MAX];

	for (uint32_t i = 0; i < l->n; i++) {
		if (!counts[i] || !get_profile_resources(&l->profiles[i]).v[r])
			continue;
		mig_layout_name(l, i, 0, name);
		mig_list_add(list, "%" PRIu32 " x %s", counts[i], name);
	}
}

int mig_budget_check(const struct mig_layout *l, const uint32_t counts[], struct error *err)
{
	struct mig_budget all;
	struct mig_list names = MIG_LIST_INIT;
	char name[MIG_PROFILE_NAME_MAX];

	mig_budget_init(&all, l);
	for (uint32_t i = 0; i < l->n; i++) {
		if (counts[i] <= all.more[i])
			continue;
		mig_layout_name(l, i, 0, name);
		return error_set(err, ERR_LIMIT,
			"%" PRIu32 " x %s wanted, the GPU can have %" PRIu32, counts[i], name,
			all.more[i]);
	}
	for (int r = 0; r < MIG_RESOURCES; r++) {
		uint64_t wanted = 0;

		for (uint32_t i = 0; i < l->n; i++)
			wanted += (uint64_t)counts[i] *
				  get_profile_resources(&l->profiles[i]).v[r];
		if (wanted <= all.left[r])
			continue;
		list_wanting(&names, l, counts, r);
		return error_set(err, ERR_LIMIT, "%s want %" PRIu64 " %s, the GPU has %" PRIu64,
			names.text, wanted, resource_names[r], all.left[r]);
	}
	return 0;
}
