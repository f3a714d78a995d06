/* SPDX-License-Identifier: Apache-2.0 */
/* view-sample-json KIND PATH: what the agent answers at PATH ("/api/v1/node", "/page/style.css") on that node. */
#include "support/view-sample.h"
#include "node/view/json/json.h"
#include "node/view/page/page.h"

#include <stdio.h>
#include <string.h>

static int print_sample(enum view_sample_kind kind, enum view_part part)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	size_t len = 0;

	if (view_sample(&v, kind, &err) < 0) {
		(void)fprintf(stderr, "view-sample-json: %s\n", err.msg);
		return 1;
	}
	text = view_json(v, part, &len);
	return !text || fwrite(text, 1, len, stdout) != len;
}

int main(int argc, char **argv)
{
	const char *body, *content_type;
	size_t len;

	for (int k = 0; argc == 3 && k < VIEW_SAMPLE_COUNT_; k++) {
		if (strcmp(argv[1], view_sample_name((enum view_sample_kind)k)) != 0)
			continue;
		for (int p = 0; p < VIEW_PART_COUNT_; p++) {
			if (!strcmp(argv[2], view_part_path((enum view_part)p)))
				return print_sample((enum view_sample_kind)k,
					(enum view_part)p);
		}
		if (page_find(argv[2], &body, &len, &content_type)) {
			(void)fprintf(stderr, "%s\n", content_type);
			return fwrite(body, 1, len, stdout) != len;
		}
	}
	(void)fprintf(stderr,
		"usage: view-sample-json empty|one|mixed|unpriced|sixteen PATH\n");
	return 2;
}
