/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price of the node: an option, or the catalogue's price for the Node's instance type and region
 * (monitoring.h).
 */
#include "node/agent/monitoring/internal.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LABEL_TYPE   "node.kubernetes.io/instance-type"
#define LABEL_REGION "topology.kubernetes.io/region"

static const char *get_node_price_label(const struct monitoring *mon, const char *key)
{
	const char *text = mon->c.link->node ? node_object_label(mon->c.link->node, key) : NULL;

	return text ? text : "";
}

static const char *price_option_or_empty(const char *option)
{
	return option ? option : "";
}

const char *monitoring_instance_type(const struct monitoring *mon)
{
	const char *option = price_option_or_empty(mon->c.options.instance_type);

	return *option ? option : get_node_price_label(mon, LABEL_TYPE);
}

const char *monitoring_region(const struct monitoring *mon)
{
	const char *option = price_option_or_empty(mon->c.options.region);

	return *option ? option : get_node_price_label(mon, LABEL_REGION);
}

const char *monitoring_hostname(void)
{
	static char name[256];

	if (!*name && gethostname(name, sizeof(name) - 1) < 0)
		return "";
	return name;
}

static void log_price_trouble(struct monitoring_price *p, const char *what, const char *why)
{
	if (strcmp(p->logged_error, why) != 0)
		log_warn(what, LOG_STR("reason", why));
	(void)snprintf(p->logged_error, sizeof(p->logged_error), "%s", why);
}

static void load_price_catalogue(struct monitoring *mon)
{
	struct monitoring_price *p = &mon->price;
	struct price_catalogue *new = NULL;
	struct error err = ERROR_INIT;

	if (p->load_tried)
		return;
	p->load_tried = true;
	p->stamp = file_stamp_of(price_option_or_empty(mon->c.options.price_file));
	if (price_catalogue_load(&new, price_option_or_empty(mon->c.options.price_file),
		    &err) == 0) {
		(void)price_catalogue_free(p->catalogue);
		p->catalogue = new;
		p->logged_error[0] = '\0'; /* the next error is logged again */
	} else if (p->catalogue) {
		error_suffix(&err, LAST_VALID "show no prices");
		log_price_trouble(p, "the price file is invalid", err.msg);
	} else {
		log_price_trouble(p, "no prices: the catalogue cannot be read", err.msg);
	}
	p->error = err;
}

/* Not longer than the usage records allow. */
static void set_source(struct monitoring_price *p, const struct price *price)
{
	int n = snprintf(p->source, sizeof(p->source), "catalogue%s%s",
		*price->stamp ? " " : "", price->stamp);

	if (price->assumed)
		(void)snprintf(p->source + n, sizeof(p->source) - (size_t)n,
			", %.20s (region unknown)", price->region);
}

static void find_node_price(struct monitoring *mon)
{
	struct monitoring_price *p = &mon->price;
	char warning[PRICE_WARNING_MAX];
	struct error err = ERROR_INIT;
	struct price price;

	p->nano_per_hour = 0;
	p->source[0] = p->currency[0] = '\0';
	load_price_catalogue(mon);
	if (!p->catalogue || !*p->type)
		return;
	if (price_find(p->catalogue, p->type, p->region, &price, &err) < 0) {
		log_price_trouble(p, "the price of this node is not known", err.msg);
		return;
	}
	if (price.assumed && p->region_awaited)
		return;
	p->nano_per_hour = price.nano_per_hour;
	(void)snprintf(p->currency, sizeof(p->currency), "%.7s", price.currency);
	set_source(p, &price);
	if (price.assumed)
		log_price_trouble(p,
			"the region of this node is not known, its price is that of another one; --region names it",
			p->source);
	if (price_is_stale(&price, time_wall_ns() / NS_PER_SEC, warning))
		log_price_trouble(p, "the price of this node may be old", warning);
}

void monitoring_price_update(struct monitoring *mon)
{
	struct monitoring_price *p = &mon->price;
	const char *type = monitoring_instance_type(mon), *region = monitoring_region(mon);
	bool awaited =
		!*region && mon->c.link->possible &&
		(!mon->c.link->node || node_object_state(mon->c.link->node) == NODE_UNKNOWN);

	if (mon->c.options.price_given) {
		p->nano_per_hour = mon->c.options.price_nano;
		(void)snprintf(p->currency, sizeof(p->currency), "%.7s",
			*price_option_or_empty(mon->c.options.currency)
				? mon->c.options.currency
				: "USD");
		(void)snprintf(p->source, sizeof(p->source), "option");
		return;
	}
	if (!strcmp(p->type, type) && !strcmp(p->region, region) &&
		p->region_awaited == awaited)
		return;
	p->region_awaited = awaited;
	(void)snprintf(p->type, sizeof(p->type), "%s", type);
	(void)snprintf(p->region, sizeof(p->region), "%s", region);
	find_node_price(mon);
}

void monitoring_retry(struct monitoring *mon)
{
	struct monitoring_price *p = &mon->price;
	struct file_stamp now = file_stamp_of(price_option_or_empty(mon->c.options.price_file));

	if (!mon->c.options.enabled || mon->c.options.price_given ||
		(p->load_tried && p->error.code == ERR_NONE &&
			file_stamp_same(&now, &p->stamp)))
		return;
	p->load_tried = false;
	find_node_price(mon);
}

void monitoring_price_fini(struct monitoring_price *p)
{
	p->catalogue = price_catalogue_free(p->catalogue);
}
