/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/config/label-wait.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

static bool has_value(const struct label_wait *w)
{
	return w->state == LABEL_KNOWN || w->state == LABEL_NEW_NODE;
}

bool label_wait_known(const struct label_wait *w)
{
	switch (w->state) {
	case LABEL_KNOWN:
	case LABEL_NEW_NODE:
	case LABEL_NO_NODE:
		return true;
	case LABEL_UNWANTED:
	case LABEL_GIVEN_UP:
		return !w->map;
	case LABEL_WAITING:
		break;
	}
	return false;
}

static void restart_label_wait(struct label_wait *w, uint64_t now_ns)
{
	w->since_ns = now_ns;
	w->verdict_since_ns = 0;
}

enum label_act label_wait_start(struct label_wait *w, bool wanted, bool map, uint64_t now_ns)
{
	*w = (struct label_wait){ .state = wanted ? LABEL_WAITING : LABEL_UNWANTED,
		.map = map,
		.over = !wanted };
	restart_label_wait(w, now_ns);
	return wanted ? LABEL_TICK : LABEL_NOTHING;
}

void label_wait_restore(struct label_wait *w, const char *value, const char *node_uid)
{
	/* Without an API server that can send another label, the label of an earlier run would count forever. */
	if (has_value(w) || (w->state == LABEL_UNWANTED && !w->map))
		return;
	w->state = LABEL_KNOWN;
	(void)snprintf(w->value, sizeof(w->value), "%s", value);
	(void)snprintf(w->node_uid, sizeof(w->node_uid), "%s", node_uid);
}

void label_wait_asked(struct label_wait *w, const struct error *trouble)
{
	(void)snprintf(w->not_asked, sizeof(w->not_asked), "%s", trouble->msg);
}

static enum label_act set_label_wait_value(struct label_wait *w, const char *value)
{
	bool same = has_value(w) && !strcmp(w->value, value);

	w->state = LABEL_KNOWN;
	/* A value of more than 63 characters is no label. The choice then reports that no such config exists. */
	(void)snprintf(w->value, sizeof(w->value), "%s", value);
	return same ? LABEL_NOTHING : LABEL_CHOOSE;
}

enum label_act label_wait_node(struct label_wait *w, const char *uid, const char *value,
	uint64_t now_ns)
{
	bool other = *w->node_uid && strcmp(w->node_uid, uid) != 0;

	(void)snprintf(w->node_uid, sizeof(w->node_uid), "%s", uid);
	if (value)
		return set_label_wait_value(w, value);
	/* A Node that was deleted and recreated without its label gets time for the label. */
	if (other && has_value(w) && *w->value) {
		w->state = LABEL_NEW_NODE;
		restart_label_wait(w, now_ns);
		return LABEL_TICK;
	}
	return w->state == LABEL_NEW_NODE ? LABEL_NOTHING : set_label_wait_value(w, "");
}

void label_wait_set_no_api(struct label_wait *w)
{
	w->over = true;
	if (w->state == LABEL_WAITING)
		w->state = LABEL_GIVEN_UP;
}

enum label_answer label_wait_answer(const struct label_wait *w, enum node_object_state state,
	const struct error *trouble)
{
	if (state == NODE_ABSENT || trouble->code == ERR_PERMISSION)
		return LABEL_ABSENT;
	if (trouble->code == ERR_UNAVAILABLE && strcmp(trouble->msg, w->not_asked) != 0)
		return LABEL_DOWN;
	return state == NODE_PRESENT && trouble->code == ERR_NONE ? LABEL_SEEN : LABEL_SILENT;
}

/* A Node that is gone or not readable tells nothing about its label, so the wait restarts. */
static enum label_act tick_new_node(struct label_wait *w, enum label_answer answer,
	uint64_t now_ns)
{
	if (answer != LABEL_SEEN)
		restart_label_wait(w, now_ns);
	else if (now_ns - w->since_ns >= LABEL_WAIT_NS)
		return set_label_wait_value(w, "");
	return LABEL_NOTHING;
}

static bool has_waited(struct label_wait *w, enum label_answer answer, uint64_t now_ns)
{
	if (answer != LABEL_ABSENT && answer != LABEL_DOWN)
		w->verdict_since_ns = 0;
	else if (w->verdict_since_ns == 0)
		w->verdict_since_ns = now_ns;
	return now_ns - w->since_ns >= LABEL_WAIT_NS ||
	       (w->verdict_since_ns && now_ns - w->verdict_since_ns >= LABEL_VERDICT_NS);
}

enum label_act label_wait_tick(struct label_wait *w, enum label_answer answer, bool decided,
	uint64_t now_ns)
{
	bool known = label_wait_known(w), was_over = w->over;

	if (w->state == LABEL_NEW_NODE)
		return tick_new_node(w, answer, now_ns);
	if (decided || w->state == LABEL_UNWANTED || (w->over && w->state == LABEL_KNOWN))
		return LABEL_STOP;
	w->over |= has_waited(w, answer, now_ns);
	if (w->over && w->state != LABEL_KNOWN)
		w->state = answer == LABEL_ABSENT ? LABEL_NO_NODE : LABEL_GIVEN_UP;
	if (!w->over || (was_over && known == label_wait_known(w)))
		return LABEL_NOTHING;
	return !known && label_wait_known(w) ? LABEL_DO_WITHOUT : LABEL_CHOOSE;
}
