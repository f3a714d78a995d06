/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "tools/cli/cost/view/view.h"

#include <stdlib.h>
#include <string.h>

/* The first byte chooses what is printed; the rest is a Prometheus server's answer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	CLEANUP(cost_summary_freep) struct cost_summary *answers = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1 << 20);
	struct cost_print p = { .from_s = 1767225600,
		.to_s = 1767229200,
		.estimated = true,
		.provider = "unknown",
		.account = "unknown" };
	struct error err = ERROR_INIT;
	char *json;

	if (size < 1)
		return 0;
	p.by = data[0] % (COST_BY_CHARGE + 1);
	json = malloc(size);
	if (!json || cost_summary_new(&summary, p.by, &err) < 0 ||
		cost_summary_new(&answers, COST_BY_CHARGE, &err) < 0)
		abort();
	memcpy(json, data + 1, size - 1);
	json[size - 1] = '\0';
	for (size_t i = 0; i < cost_n_queries; i++) {
		if (cost_query_read(answers, &cost_queries[i], json, size - 1, p.from_s, p.to_s,
			    &err) < 0 &&
			err.code == ERR_NONE)
			abort();
	}
	free(json);
	error_clear(&err);
	if (cost_summary_merge(summary, answers, &err) < 0 && err.code == ERR_NONE)
		abort();
	p.summary = summary;
	if (cost_print_table(&text, &p, &err) == 0 &&
		buf_str(&text)[strcspn(buf_str(&text), "\033\r")])
		abort();
	if (cost_print_json(&text, &p, &err) < 0 || cost_print_csv(&text, &p, &err) < 0)
		return 0; /* more text than fits, or no costs */
	return 0;
}
