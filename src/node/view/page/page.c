/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/page/page.h"

#include <string.h>

#include "lib/base/cleanup.h"
#include "node/view/page/texts.h"

#define HTML "text/html; charset=utf-8"
#define CSS  "text/css; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"

static const struct {
	const char *path, *body;
	const size_t *len;
	const char *content_type;
} files[] = {
	{ "/", page_index_html, &page_index_html_len, HTML },
	{ "/page/bar.js", page_bar_js, &page_bar_js_len, JS },
	{ "/page/chart.js", page_chart_js, &page_chart_js_len, JS },
	{ "/page/dom.js", page_dom_js, &page_dom_js_len, JS },
	{ "/page/format.js", page_format_js, &page_format_js_len, JS },
	{ "/page/gpu.js", page_gpu_js, &page_gpu_js_len, JS },
	{ "/page/node.js", page_node_js, &page_node_js_len, JS },
	{ "/page/page.js", page_page_js, &page_page_js_len, JS },
	{ "/page/style.css", page_style_css, &page_style_css_len, CSS },
};

bool page_find(const char *path, const char **ret_body, size_t *ret_len,
	const char **ret_content_type)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (strcmp(files[i].path, path) != 0)
			continue;
		*ret_body = files[i].body;
		*ret_len = *files[i].len;
		*ret_content_type = files[i].content_type;
		return true;
	}
	return false;
}
