/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/place/policy.h"

#include "lib/base/buf.h"

#include <stdlib.h>
#include <string.h>

const char *const place_policy_names[] = { "value", "fgd", "best-fit", "first-fit", "random" };
const size_t place_n_policies = ARRAY_LEN(place_policy_names);

static const struct place_method *const methods[ARRAY_LEN(place_policy_names)] = { &place_value,
	&place_fgd, &place_best_fit, &place_first_fit, &place_random };

static int set_unknown_policy_error(const char *name, struct error *err)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(1024);

	for (size_t i = 0; i < place_n_policies; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", place_policy_names[i]);
	return error_set(err, ERR_NOT_FOUND, "no policy '%s'; there are %s", name,
		buf_str(&names));
}

int place_policy_new(struct place_policy **ret, const char *name, const struct place_setting *s,
	struct error *err)
{
	CLEANUP(place_policy_freep) struct place_policy *p = NULL;
	size_t i = 0;

	while (i < place_n_policies && strcmp(place_policy_names[i], name) != 0)
		i++;
	if (i == place_n_policies)
		return set_unknown_policy_error(name, err);
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	*p = (struct place_policy){ .method = methods[i],
		.nodes = s->nodes,
		.n_nodes = s->n_nodes,
		.state = s->seed };
	if (p->method->start && p->method->start(p, s, err) < 0)
		return -1;
	*ret = STEAL_PTR(p);
	return 0;
}

struct place_policy *place_policy_free(struct place_policy *p)
{
	if (!p)
		return NULL;
	if (p->method->stop)
		p->method->stop(p);
	free(p);
	return NULL;
}

bool place_decide(struct place_policy *p, const struct place_pod *pod, struct place_choice *ret)
{
	return p->method->decide(p, pod, ret);
}

void place_notify_change(struct place_policy *p, size_t i)
{
	if (p->method->changed)
		p->method->changed(p, i);
}

/* SplitMix64: G. Steele, D. Lea, C. Flood, OOPSLA 2014. */
uint64_t place_draw(uint64_t *state, uint64_t below)
{
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	z ^= z >> 31;
	return (uint64_t)((unsigned __int128)z * below >> 64);
}
